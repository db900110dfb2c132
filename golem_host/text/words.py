"""A bounded memory of what words encode to; texts repeat their words."""

from __future__ import annotations

from collections.abc import Callable

_MAX_WORDS = 1 << 16
_MAX_CHARACTERS = 64


class WordCache:
    """Calls `encode(word)` once per word, as long as words are short and not too many; forgets all when full.

    Threads may share it: at worst a word is encoded twice.
    """

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._known: dict[str, list[int]] = {}

    def ids(self, words: list[str]) -> list[int]:
        """The ids of all words in order."""
        out: list[int] = []
        known = self._known
        for word in words:
            ids = known.get(word)
            if ids is None:
                ids = self._encode(word)
                if len(word) <= _MAX_CHARACTERS:
                    if len(known) >= _MAX_WORDS:
                        known.clear()
                    known[word] = ids
            out += ids
        return out
