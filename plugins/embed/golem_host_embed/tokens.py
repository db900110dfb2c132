"""Texts as token ids, for whichever tokenizer a checkpoint brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from golem_host.errors import BadRequest

QUICK = 1 << 16
"""Characters that are quickly tokenized; of a longer text only as much is as settles that it is too long."""
LONGEST = 1 << 20
"""Characters of a text that are tokenized at most: each takes up to some 200 bytes of memory meanwhile."""


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

    def texts(self, texts: Iterable[str], limit: int) -> Iterator[Tokens]:
        """Texts with the special tokens around them; those of more than `limit` tokens need not be whole.

        They are tokenized as they are asked for, so that nothing is done, or kept, beyond the first that is too long.
        Raises `BadRequest` for a text of more than `LONGEST` characters whose beginning does not show that it is.
        """
        return (self._framed(ids, whole) for ids, whole in self._ids(texts, limit))

    def cut(self, tokens: Tokens, limit: int) -> Tokens:
        """The beginning of a text, `limit` tokens at most, with the special tokens around it."""
        if len(tokens) <= limit:
            return tokens
        end = len(self.frame.after)
        return Tokens([*tokens.ids[: limit - end], *tokens.ids[len(tokens) - end :]])

    def pairs(self, first: str, seconds: Iterable[str], limit: int) -> Iterator[Tokens]:
        """Pairs of `first` with each of `seconds`, as a cross-encoder reads them; see `texts`."""
        frame = self.frame
        [(head, head_whole)] = self._ids([first], limit)
        before = [*frame.before, *head, *frame.between]
        for tail, whole in self._ids(seconds, limit):
            after = [*tail, *frame.after]
            segments = [0] * len(before) + [frame.second] * len(after) if frame.second else []
            yield Tokens(before + after, segments, whole and head_whole)

    def _framed(self, ids: list[int], whole: bool) -> Tokens:
        return Tokens([*self.frame.before, *ids, *self.frame.after], whole=whole)

    def _ids(self, texts: Iterable[str], limit: int) -> Iterator[tuple[list[int], bool]]:
        """The ids of each text, and whether they are all."""
        for batch in _batches(texts):
            if len(batch[0]) > QUICK:
                yield self._long(batch[0], limit)
            else:
                for ids in self._encode(batch):
                    yield ids, True

    def _long(self, text: str, limit: int) -> tuple[list[int], bool]:
        size = QUICK
        while size < len(text) and size <= LONGEST:
            end = max(text.rfind(" ", 0, size), text.rfind("\n", 0, size))
            if end > 0:
                [ids] = self._encode([text[:end]])
                if len(ids) > limit:
                    return ids, False
            size *= 4
        if len(text) > LONGEST:
            raise BadRequest(
                f"a text of {len(text)} characters is too long, and has no space in the right place to read only its "
                "beginning; split it"
            )
        [ids] = self._encode([text])
        return ids, True


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Neighbouring texts of `QUICK` characters in all, or one that is longer."""
    batch: list[str] = []
    room = QUICK
    for text in texts:
        if batch and len(text) > room:
            yield batch
            batch, room = [], QUICK
        batch.append(text)
        room -= len(text)
    if batch:
        yield batch
