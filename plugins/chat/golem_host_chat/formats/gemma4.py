"""Gemma 4's calls: `<|tool_call>call:NAME{key:<|"|>text<|"|>,other:1}<tool_call|>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from golem_host_chat.formats.base import MAX_DEPTH, Call, Malformed, Tools, Writer, parse_json
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.tag_values import texts_of, types_of

_OPENER, _CLOSER, _QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
TURN_BEGIN, TURN_END = "<|turn>model\n", "<turn|>\n"
_NAME = re.compile(r"[^{}\s]+")
_KEY = re.compile(r"[^:{}\[\],\s]+")
_WORD = re.compile(r"[^,{}\[\]\s]+")
_BARE_KEY = r"[A-Za-z_][A-Za-z0-9_]*"
_INTEGER = r"-?(0|[1-9][0-9]{0,17})"
_KINDS = {
    "boolean": "true|false",
    "integer": _INTEGER,
    "null": "null",
    "number": _INTEGER + r"(\.[0-9]{1,17})?",
}
"""How values of these types are written."""
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

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        calls = [
            f"{write.text(f'{_OPENER}call:{name}')} {_object(write, schema)} {write.text(_CLOSER)}"
            for name, schema in tools.items()
        ]
        call = write.rule(" | ".join(calls))
        return f"{call}+" if several else call


def _object(write: Writer, schema: Mapping[str, Any]) -> str:
    """Members in the order of their keys: all that are required and any of the others."""
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    if not properties and schema.get("additionalProperties") is not False:
        return _anything(write) if schema.get("type") != "object" or schema.get("additionalProperties") else '"{}"'
    first, later = '""', '""'
    for key in sorted(properties, reverse=True):
        member = f"{write.text(f'{key}:')} {_written(write, properties[key])}"
        one, other = f"{member} {later}", f"{write.text(',')} {member} {later}"
        first = write.rule(one if key in required else f"{one} | {first}")
        later = write.rule(other if key in required else f"{other} | {later}")
    return f"{write.text('{')} {first} {write.text('}')}"


def _written(write: Writer, schema: Any) -> str:
    """A value of the schema's type; its other keywords are not enforced within this notation."""
    kinds = types_of(schema)
    if texts := texts_of(schema):
        return "(" + " | ".join(f"{write.text(_QUOTE + text + _QUOTE)}" for text in texts) + ")"
    if not kinds or not kinds <= _KINDS.keys() | {"array", "object", "string"}:
        return _anything(write)
    written = [write.pattern(_KINDS[kind]) for kind in sorted(kinds) if kind in _KINDS]
    if "string" in kinds:
        written.append(_text(write))
    if "array" in kinds:
        item = _written(write, schema.get("items"))
        written.append(f"{write.text('[')} ({item} ({write.text(',')} {item})*)? {write.text(']')}")
    if "object" in kinds:
        written.append(_object(write, schema))
    return "(" + " | ".join(written) + ")"


def _text(write: Writer) -> str:
    return f"{write.text(_QUOTE)} {write.until(_QUOTE)}"


def _anything(write: Writer) -> str:
    """Any value of the notation."""
    name, comma = "gemma4_value", write.text(",")
    member = f"{write.pattern(_BARE_KEY)} {write.text(':')} {name}"
    plain = " | ".join(write.pattern(pattern) for pattern in _KINDS.values())
    items = f"{write.text('[')} ({name} ({comma} {name})*)? {write.text(']')}"
    members = f"{write.text('{')} ({member} ({comma} {member})*)? {write.text('}')}"
    return write.rule(f"{plain} | {_text(write)} | {items} | {members}", name)


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
