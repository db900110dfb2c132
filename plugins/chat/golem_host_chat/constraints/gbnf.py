"""GBNF, the notation of llama.cpp's grammars, read into a tree.

Written from its documentation (grammars/README.md of llama.cpp): rules `name ::= alternatives`, literals, character
classes, `.`, groups, `* + ? {m} {m,} {,n} {m,n}`, comments; the answer begins at `root`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from golem_host_chat.constraints.charset import ANY, CharSet

MAX_CHARACTERS = 1 << 16
MAX_REPETITION = 2000
"""As in llama.cpp."""
MAX_RULES = 2000
MAX_DEPTH = 64
"""Groups within groups."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_BOUNDS = re.compile(r"\{[ \t]*([0-9]{0,9})[ \t]*(,?)[ \t]*([0-9]{0,9})[ \t]*\}")
_ESCAPE = re.compile(r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}")
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}


class GbnfError(ValueError):
    """A text that is no grammar; says where."""


@dataclass(frozen=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True)
class Name:
    """What the rule of that name is."""

    rule: str


@dataclass(frozen=True)
class Seq:
    """One after the other; nothing when there are none."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Alt:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """`least` times or more, `most` at most (None: without limit)."""

    part: Node
    least: int
    most: int | None


Node = Chars | Name | Seq | Alt | Repeat


def read_gbnf(text: str) -> dict[str, Node]:
    """The rules by name; of two with one name the last. Raises `GbnfError`."""
    if len(text) > MAX_CHARACTERS:
        raise GbnfError(f"it has {len(text)} characters; at most {MAX_CHARACTERS} are taken")
    rules = _Reader(text).rules()
    if "root" not in rules:
        raise GbnfError("it has no rule 'root'")
    return rules


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._named: dict[str, int] = {}
        """Rules that are used, and where first."""

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            name = self._name()
            if len(rules) == MAX_RULES:
                raise self._fault(f"it has more than {MAX_RULES} rules")
            self._skip(_SPACE)
            self._expect("::=")
            self._skip(_SPACE_AND_LINES)
            rules[name] = self._alternatives()
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise self._fault("a line break was expected")
            self._skip(_SPACE_AND_LINES)
        for name, at in self._named.items():
            if name not in rules:
                self._at = at
                raise self._fault(f"there is no rule '{name[:60]}'")
        return rules

    @property
    def _space(self) -> re.Pattern[str]:
        return _SPACE_AND_LINES if self._depth else _SPACE

    def _alternatives(self) -> Node:
        options = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            self._skip(_SPACE_AND_LINES)
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (part := self._part()) is not None:
            self._skip(self._space)
            parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _part(self) -> Node | None:
        char = self._text[self._at : self._at + 1]
        if char == '"':
            return self._literal()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            self._at += 1
            return Chars(ANY)
        if char == "(":
            return self._group()
        if _NAME.match(char):
            at = self._at
            name = self._name()
            self._named.setdefault(name, at)
            return Name(name)
        return None

    def _group(self) -> Node:
        self._at += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(f"groups are nested deeper than {MAX_DEPTH}")
        self._skip(_SPACE_AND_LINES)
        inner = self._alternatives()
        self._expect(")")
        self._depth -= 1
        return inner

    def _repeated(self, part: Node) -> Node:
        while True:
            char = self._text[self._at : self._at + 1]
            if char and char in "*+?":
                self._at += 1
                part = Repeat(part, int(char == "+"), 1 if char == "?" else None)
            elif char == "{":
                part = Repeat(part, *self._bounds())
            else:
                return part
            self._skip(self._space)

    def _bounds(self) -> tuple[int, int | None]:
        found = _BOUNDS.match(self._text, self._at)
        if found is None or not (found[1] or found[3]):
            raise self._fault("a repetition is '{m}', '{m,}', '{,n}' or '{m,n}'")
        least = int(found[1] or 0)
        most = (int(found[3]) if found[3] else None) if found[2] else least
        if max(least, most or 0) > MAX_REPETITION:
            raise self._fault(f"a repetition may be {MAX_REPETITION} times")
        if most is not None and most < least:
            raise self._fault("a repetition has fewer at most than at least")
        self._at = found.end()
        return least, most

    def _literal(self) -> Node:
        self._at += 1
        parts: list[Node] = []
        while not self._text.startswith('"', self._at):
            parts.append(Chars(CharSet.char(self._char())))
        self._at += 1
        return Seq(tuple(parts))

    def _class(self) -> CharSet:
        self._at += 1
        inverted = self._text.startswith("^", self._at)
        self._at += inverted
        ranges: list[tuple[int, int]] = []
        while not self._text.startswith("]", self._at):
            first = last = ord(self._char())
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                last = ord(self._char())
                if last < first:
                    raise self._fault("a range ends before it begins")
            ranges.append((first, last))
        self._at += 1
        chars = CharSet.of(ranges).complement() if inverted else CharSet.of(ranges)
        if not chars:
            raise self._fault("a class has no character")
        return chars

    def _char(self) -> str:
        """A character of a literal or a class, which may be escaped."""
        if self._at >= len(self._text):
            raise self._fault("a literal or class is not closed")
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return char
        found = _ESCAPE.match(self._text, self._at)
        if found is not None:
            code = int(found[0][1:], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise self._fault("an escape is no character")
            self._at = found.end()
            return chr(code)
        escaped = _ESCAPED.get(self._text[self._at : self._at + 1])
        if escaped is None:
            raise self._fault("there is no such escape")
        self._at += 1
        return escaped

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self._fault("a name was expected")
        self._at = found.end()
        return found[0]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _expect(self, literal: str) -> None:
        if not self._text.startswith(literal, self._at):
            raise self._fault(f"'{literal}' was expected")
        self._at += len(literal)

    def _fault(self, what: str) -> GbnfError:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        return GbnfError(f"line {line}, column {column}: {what}")
