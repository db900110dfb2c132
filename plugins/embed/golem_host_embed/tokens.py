"""Texts as token ids, for whichever tokenizer a checkpoint brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """One text ready for the model: `ids`, special tokens included, and for each its segment: 0, in the second text of
    a pair 1.

    `segments` is empty when all are 0.
    """

    ids: list[int]
    segments: list[int]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Frame:
    """The special tokens around texts, as the checkpoint's tokenizer puts them; `segment` those of a pair's second half
    carry (0 for models with one segment).
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    between: tuple[int, ...]
    """Between the two texts of a pair; `before` and `after` stand around both."""
    second: int


class TextTokens:
    """The tokenizer of a checkpoint. Threads may share it.

    `encode` gives the ids of a text without special tokens around it. `size` is the number of ids.
    """

    def __init__(self, encode: Callable[[str], list[int]], frame: Frame, size: int) -> None:
        self._encode = encode
        self.frame = frame
        self.size = size

    def text(self, text: str) -> Tokens:
        """A text with the special tokens around it."""
        return self.framed(self._encode(text))

    def framed(self, ids: Sequence[int]) -> Tokens:
        """Ids of a text with the special tokens around them."""
        return Tokens([*self.frame.before, *ids, *self.frame.after], [])

    def cut(self, tokens: Tokens, limit: int) -> Tokens:
        """A text of at most `limit` tokens: its beginning, the special tokens kept."""
        if len(tokens) <= limit:
            return tokens
        end = len(self.frame.after)
        return Tokens([*tokens.ids[: limit - end], *tokens.ids[len(tokens) - end :]], [])

    def pair(self, first: str, second: str) -> Tokens:
        """Two texts that a cross-encoder compares."""
        frame = self.frame
        head = [*frame.before, *self._encode(first), *frame.between]
        tail = [*self._encode(second), *frame.after]
        segments = [0] * len(head) + [frame.second] * len(tail) if frame.second else []
        return Tokens(head + tail, segments)
