"""Sets of characters, as GBNF's classes and llguidance's expressions write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LAST = 0x10FFFF


@dataclass(frozen=True)
class CharSet:
    """Code points, as inclusive ranges in order that do not touch."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharSet:
        """Any ranges; empty ones (last before first) are left out."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(each for each in ranges if each[0] <= each[1]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def char(cls, char: str) -> CharSet:
        return cls(((ord(char), ord(char)),))

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.of((*self.ranges, *other.ranges))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def meets(self, other: CharSet) -> bool:
        """Whether a character is in both."""
        at = 0
        for first, last in self.ranges:
            while at < len(other.ranges) and other.ranges[at][1] < first:
                at += 1
            if at < len(other.ranges) and other.ranges[at][0] <= last:
                return True
        return False

    def complement(self) -> CharSet:
        ends = [-1, *(last for _, last in self.ranges)]
        starts = [*(first for first, _ in self.ranges), LAST + 1]
        return CharSet.of((end + 1, start - 1) for end, start in zip(ends, starts, strict=True))

    def expression(self) -> str:
        """A class of Rust's regular expressions. Surrogates, which are no characters, are left out."""
        return "[" + "".join(f"\\u{{{first:x}}}-\\u{{{last:x}}}" for first, last in self._characters()) + "]"

    def _characters(self) -> Iterable[tuple[int, int]]:
        for first, last in self.ranges:
            for low, high in ((first, min(last, 0xD7FF)), (max(first, 0xE000), last)):
                if low <= high:
                    yield low, high


EMPTY = CharSet(())
ANY = CharSet(((0, LAST),))
