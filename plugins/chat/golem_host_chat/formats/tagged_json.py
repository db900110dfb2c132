"""Calls as JSON objects between two tags: Hermes and Qwen 2.5 and 3 (`<tool_call>`), and many others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from golem_host_chat.formats.base import Call, Malformed, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")
SPACES = r"[ \n]{0,2}"
"""What models write between tags and JSON."""


@dataclass(frozen=True)
class TaggedJson:
    """`opener`, then an object with a name and arguments, or several, or a list of them, then `closer` ("": none).

    The closer may be missing where the answer ends.
    """

    opener: str
    closer: str
    name: str = "name"
    arguments: str = "arguments"
    listed: bool = False
    """As the template shows them: the keys, and whether calls are elements of a list."""
    begins_answers: bool = False
    ends_thought: bool = False

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.opener,)

    @property
    def markers(self) -> tuple[str, ...]:
        return (self.opener, self.closer)

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.expect(self.opener)
        calls: list[Call] = []
        while True:
            yield from cursor.space()
            calls += calls_of((yield from cursor.json()))
            if not self.closer:
                return calls
            yield from cursor.space()
            if (yield from cursor.takes(self.closer)) or (yield from cursor.at_end()):
                return calls

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        call = one_of(write, tools, self.name, self.arguments)
        if self.listed:
            calls = listed(write, call, several=several)
            return f"{write.text(self.opener)} {write.pattern(SPACES)} {calls} {self._end(write)}"
        call = write.rule(f"{write.text(self.opener)} {write.pattern(SPACES)} {call} {self._end(write)}")
        return f"{call} ({write.pattern(SPACES)} {call})*" if several else call

    def _end(self, write: Writer) -> str:
        return f"{write.pattern(SPACES)} {write.text(self.closer)}" if self.closer else ""


HERMES = TaggedJson("<tool_call>", "</tool_call>")


def calls_of(value: Any) -> list[Call]:
    """The call a JSON object is, or the calls of a list. Raises `Malformed`."""
    if not isinstance(value, list):
        value = [value]
    if not value or not all(isinstance(call, dict) for call in value):
        raise Malformed
    return [Call.of(_member(call, NAMES), _member(call, ARGUMENTS)) for call in value]


def one_of(write: Writer, tools: Tools, name: str, arguments: str, more: str = "") -> str:
    """A JSON object that calls one of `tools`, its members under these names, `more` after them."""
    calls = [
        f"{write.text(f'{{{json.dumps(name)}: {json.dumps(tool)}, {json.dumps(arguments)}: ')} "
        f"{arguments_of(write, tool, parameters)} {more} {write.text('}')}"
        for tool, parameters in tools.items()
    ]
    return write.rule(" | ".join(calls))


def arguments_of(write: Writer, tool: str, parameters: Mapping[str, Any]) -> str:
    """A JSON object that fits `parameters`. Raises `ValueError` where their type is another."""
    kinds = parameters.get("type", "object")
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        raise ValueError(f"the parameters of {tool!r} are no object, as those of a function are")
    return write.json({**parameters, "type": "object"})


def listed(write: Writer, call: str, *, several: bool) -> str:
    """A JSON list of `call`, or of several."""
    more = f"({write.text(', ')} {call})*" if several else ""
    return f"{write.text('[')} {call} {more} {write.text(']')}"


def _member(call: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((call[name] for name in names if name in call), None)
