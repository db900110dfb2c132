"""Answers whose lines must be indented."""

from __future__ import annotations


class Indentation:
    """Ends a text at the first line, of those after a line break, that begins with fewer than `least` blanks or tabs;
    an empty line does. What it has of them stays (llama-server's `n_indent`).
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._seen: int | None = None
        """Blanks and tabs at the beginning of this line; None where they no longer matter."""
        self.broken = False

    def push(self, text: str) -> str:
        """Take in text; returns what may stay of it."""
        for at, character in enumerate(text):
            if self._seen is not None and character in " \t":
                self._seen += 1
            elif self._seen is not None and self._seen < self._least:
                self.broken = True
                return text[:at]
            elif character == "\n":
                self._seen = 0
            else:
                self._seen = None
        return text
