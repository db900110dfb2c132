"""A bounded memory of what words encode to; texts repeat their words."""

from __future__ import annotations

from collections.abc import Callable

_MAX_WORDS = 1 << 16
_MAX_CHARACTERS = 64


class WordCache:
    """Has a word encoded once, as long as words are short and not too many; forgets all when full.

    Threads may share it: at worst a word is encoded twice. It does not hold the tokenizer that holds it: the two, and
    the mapped file, would outlive their model until the collector comes by.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[int]] = {}

    def ids(self, words: list[str], encode: Callable[[str], list[int]]) -> list[int]:
        """The ids of all words in order; `encode` gives those of a word not yet known, always the same."""
        out: list[int] = []
        known = self._known
        for word in words:
            ids = known.get(word)
            if ids is None:
                ids = encode(word)
                if len(word) <= _MAX_CHARACTERS:
                    if len(known) >= _MAX_WORDS:
                        known.clear()
                    known[word] = ids
            out += ids
        return out
