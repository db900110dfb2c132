"""Text that is read while it grows: the steps notations of calls are made of.

Each step is a generator that yields when it needs more text, so that a notation reads as one straight function and each
character is looked at once, however the answer was cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, TypeVar

from golem_host_chat.formats.base import MAX_DEPTH, Malformed, parse_json

Result = TypeVar("Result")
Step = Generator[None, None, Result]

SPACE = " \t\r\n"

_BRACKETS = re.compile(r'["{}\[\]]')
_STRING_END = re.compile(r'["\\]')


class Cursor:
    """A place in a text that grows by `feed` until `end`. Steps raise `Malformed` when the text cannot go on so."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.at = 0
        self.ended = False

    def feed(self, text: str) -> None:
        self.text += text

    def end(self) -> None:
        """No more text will come."""
        self.ended = True

    def compact(self) -> None:
        """Forget what was passed."""
        self.text, self.at = self.text[self.at :], 0

    def more(self) -> Step[bool]:
        """Wait for text after what there is; False at its end."""
        length = len(self.text)
        while len(self.text) == length:
            if self.ended:
                return False
            yield
        return True

    def at_end(self) -> Step[bool]:
        """Whether the text ends here."""
        return self.at == len(self.text) and not (yield from self.more())

    def space(self) -> Step[None]:
        """Skip blanks and line breaks."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in SPACE:
                    return
                self.at += 1
            if not (yield from self.more()):
                return

    def takes(self, *literals: str) -> Step[str | None]:
        """Pass the one of `literals` that comes next, the longest if several do; None, at the same place, if none."""
        while True:
            here = self.text[self.at : self.at + max(map(len, literals))]
            possible = [literal for literal in literals if literal.startswith(here) and literal != here]
            if not possible or not (yield from self.more()):
                break
        found = max((literal for literal in literals if here.startswith(literal)), key=len, default=None)
        self.at += len(found or "")
        return found

    def expect(self, literal: str) -> Step[None]:
        """Pass `literal`."""
        if not (yield from self.takes(literal)):
            raise Malformed

    def until(self, literal: str) -> Step[str]:
        """Pass everything up to the next `literal` and itself; returns what was before it."""
        start = looked = self.at
        while (found := self.text.find(literal, looked)) < 0:
            looked = max(start, len(self.text) - len(literal) + 1)
            if not (yield from self.more()):
                raise Malformed
        self.at = found + len(literal)
        return self.text[start:found]

    def match(self, pattern: re.Pattern[str]) -> Step[str]:
        """Pass a run of characters of the class `pattern` (`[...]+`), to its end."""
        start = self.at
        while True:
            found = pattern.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text) or not (yield from self.more()):
                break
        if self.at == start:
            raise Malformed
        return self.text[start : self.at]

    def json(self) -> Step[Any]:
        """Pass a JSON object or array; returns its value."""
        start = self.at
        yield from self._brackets()
        return parse_json(self.text[start : self.at])

    def next_is(self, *literals: str) -> Step[bool]:
        """Whether one of `literals` comes next; none is passed."""
        at = self.at
        found = yield from self.takes(*literals)
        self.at = at
        return found is not None

    def _brackets(self) -> Step[None]:
        """Pass text to the bracket that closes the one that begins here; strings may contain brackets."""
        if (yield from self.takes("{", "[")) is None:
            raise Malformed
        depth = 1
        while depth:
            found = yield from self._search(_BRACKETS)
            if found == '"':
                yield from self.string()
            else:
                depth += 1 if found in "{[" else -1
            if depth > MAX_DEPTH:
                raise Malformed

    def string(self) -> Step[str]:
        """Pass the rest of a JSON string whose quote was passed, to its end; returns its text with the last quote."""
        start = self.at
        while (yield from self._search(_STRING_END)) == "\\":
            if self.at == len(self.text) and not (yield from self.more()):
                raise Malformed
            self.at += 1
        return self.text[start : self.at]

    def _search(self, pattern: re.Pattern[str]) -> Step[str]:
        """Pass everything up to a character of `pattern` and itself; returns it."""
        while (found := pattern.search(self.text, self.at)) is None:
            self.at = len(self.text)
            if not (yield from self.more()):
                raise Malformed
        self.at = found.end()
        return found[0]
