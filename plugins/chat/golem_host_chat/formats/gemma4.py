"""Gemma 4's calls: `<|tool_call>call:NAME{key:<|"|>text<|"|>,other:1}<tool_call|>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from golem_host_chat.formats.base import MAX_DEPTH, Call, Malformed, Tools, parse_json
from golem_host_chat.formats.cursor import Cursor, Step

_OPENER, _CLOSER, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
TURN_BEGIN, TURN_END = "<|turn>model\n", "<turn|>\n"
_NAME = re.compile(r"[^{}\s]+")
_KEY = re.compile(r"[^:{}\[\],\s]+")
_WORD = re.compile(r"[^,{}\[\]\s]+")
_WORDS = {"None": None, "True": True, "False": False}
"""How the template's own language spells some values."""


@dataclass(frozen=True)
class Gemma4:
    """Keys are bare, texts stand between `<|"|>` as they are, everything else is as in JSON."""

    openers: tuple[str, ...] = (_OPENER,)
    markers: tuple[str, ...] = (_OPENER, _CLOSER, _QUOTE)
    begins_answers: bool = False
    ends_thought: bool = True

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.expect(_OPENER)
        yield from cursor.space()
        yield from cursor.expect("call:")
        name = yield from cursor.match(_NAME)
        yield from cursor.space()
        yield from cursor.expect("{")
        arguments = yield from _members(cursor, 1)
        yield from cursor.space()
        if not (yield from cursor.takes(_CLOSER)) and not (yield from cursor.at_end()):
            raise Malformed
        return [Call.of(name, arguments)]


def _members(cursor: Cursor, depth: int) -> Step[dict[str, Any]]:
    """The members of an object whose brace was passed, to its end."""
    members: dict[str, Any] = {}
    yield from cursor.space()
    while not (yield from cursor.takes("}")):
        if (yield from cursor.takes(_QUOTE)):
            key = yield from cursor.until(_QUOTE)
        else:
            key = yield from cursor.match(_KEY)
        yield from cursor.space()
        yield from cursor.expect(":")
        members[key] = yield from _value(cursor, depth)
        yield from _comma(cursor, "}")
    return members


def _elements(cursor: Cursor, depth: int) -> Step[list[Any]]:
    """The elements of a list whose bracket was passed, to its end."""
    elements: list[Any] = []
    yield from cursor.space()
    while not (yield from cursor.takes("]")):
        elements.append((yield from _value(cursor, depth)))
        yield from _comma(cursor, "]")
    return elements


def _comma(cursor: Cursor, end: str) -> Step[None]:
    """Pass what separates two members, or nothing before the `end`."""
    yield from cursor.space()
    if not (yield from cursor.takes(",")) and not (yield from cursor.next_is(end)):
        raise Malformed
    yield from cursor.space()


def _value(cursor: Cursor, depth: int) -> Step[Any]:
    if depth > MAX_DEPTH:
        raise Malformed
    yield from cursor.space()
    kind = yield from cursor.takes(_QUOTE, "{", "[", '"')
    if kind == _QUOTE:
        return (yield from cursor.until(_QUOTE))
    if kind == "{":
        return (yield from _members(cursor, depth + 1))
    if kind == "[":
        return (yield from _elements(cursor, depth + 1))
    if kind == '"':
        return parse_json('"' + (yield from cursor.string()))
    word = yield from cursor.match(_WORD)
    return _WORDS[word] if word in _WORDS else parse_json(word)


GEMMA4 = Gemma4()
