"""Calls as JSON objects between two tags: Hermes and Qwen 2.5 and 3 (`<tool_call>`), and many others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from golem_host_chat.formats.base import Call, Malformed, Tools
from golem_host_chat.formats.cursor import Cursor, Step

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")


@dataclass(frozen=True)
class TaggedJson:
    """`opener`, then an object with a name and arguments, or several, or a list of them, then `closer` ("": none).

    The closer may be missing where the answer ends.
    """

    opener: str
    closer: str
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


HERMES = TaggedJson("<tool_call>", "</tool_call>")


def calls_of(value: Any) -> list[Call]:
    """The call a JSON object is, or the calls of a list. Raises `Malformed`."""
    if not isinstance(value, list):
        value = [value]
    if not value or not all(isinstance(call, dict) for call in value):
        raise Malformed
    return [Call.of(_member(call, NAMES), _member(call, ARGUMENTS)) for call in value]


def _member(call: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((call[name] for name in names if name in call), None)
