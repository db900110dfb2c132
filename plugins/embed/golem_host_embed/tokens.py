"""Texts as token ids, for whichever tokenizer a checkpoint brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

QUICK = 1 << 16
"""Characters that are quickly tokenized; of a longer text only as much is as settles that it is too long."""


@dataclass(frozen=True)
class Tokens:
    """One text ready for the model: `ids`, special tokens included, and for each its segment: 0, in the second text of
    a pair 1.

    `segments` is empty when all are 0. Of a text that is far too long the beginning is there, `whole` being False.
    """

    ids: list[int]
    segments: list[int] = field(default_factory=list)
    whole: bool = True

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Frame:
    """The special tokens around texts, as the checkpoint's tokenizer puts them.

    `before` and `after` stand around a text or a pair, `between` between the two texts of a pair; `second` is the
    segment of the second text and of what follows it (0 for models with one segment).
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    between: tuple[int, ...]
    second: int

    @property
    def size(self) -> int:
        """Special tokens of a text."""
        return len(self.before) + len(self.after)


class TextTokens:
    """The tokenizer of a checkpoint. Threads may share it.

    `encode` gives the ids of texts without special tokens around them; the ids of a text's beginning, up to some space,
    must be the beginning of its ids. `size` is the number of ids.
    """

    def __init__(self, encode: Callable[[Sequence[str]], list[list[int]]], frame: Frame, size: int) -> None:
        self._encode = encode
        self.frame = frame
        self.size = size

    def texts(self, texts: Sequence[str], limit: int) -> list[Tokens]:
        """Texts with the special tokens around them; those of more than `limit` tokens need not be whole."""
        return [self._framed(ids, whole) for ids, whole in self._ids(texts, limit)]

    def cut(self, tokens: Tokens, limit: int) -> Tokens:
        """The beginning of a text, `limit` tokens at most, with the special tokens around it."""
        if len(tokens) <= limit:
            return tokens
        end = len(self.frame.after)
        return Tokens([*tokens.ids[: limit - end], *tokens.ids[len(tokens) - end :]])

    def pairs(self, first: str, seconds: Sequence[str], limit: int) -> list[Tokens]:
        """Pairs of `first` with each of `seconds`, as a cross-encoder reads them; see `texts` for `limit`."""
        frame = self.frame
        (head, head_whole), *tails = self._ids([first, *seconds], limit)
        before = [*frame.before, *head, *frame.between]
        pairs = []
        for tail, whole in tails:
            after = [*tail, *frame.after]
            segments = [0] * len(before) + [frame.second] * len(after) if frame.second else []
            pairs.append(Tokens(before + after, segments, whole and head_whole))
        return pairs

    def _framed(self, ids: list[int], whole: bool) -> Tokens:
        return Tokens([*self.frame.before, *ids, *self.frame.after], whole=whole)

    def _ids(self, texts: Sequence[str], limit: int) -> list[tuple[list[int], bool]]:
        """The ids of each text, and whether they are all."""
        quick = iter(self._encode([text for text in texts if len(text) <= QUICK]))
        return [(next(quick), True) if len(text) <= QUICK else self._long(text, limit) for text in texts]

    def _long(self, text: str, limit: int) -> tuple[list[int], bool]:
        size = QUICK
        while size < len(text):
            end = max(text.rfind(" ", 0, size), text.rfind("\n", 0, size))
            if end > 0:
                [ids] = self._encode([text[:end]])
                if len(ids) > limit:
                    return ids, False
            size *= 4
        [ids] = self._encode([text])
        return ids, True
