"""Mistral's calls, in the three notations of its tokenizers.

Nemo: `[TOOL_CALLS][{"name": ..., "arguments": ..., "id": ...}]`; Small 3.2: `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}`;
Ministral 3 and Devstral: `[TOOL_CALLS]NAME[ARGS]{...}`, repeated for each call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from golem_host_chat.formats.base import Call, Malformed, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.tagged_json import arguments_of, calls_of, listed, one_of

_OPENER, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_NINE = "[A-Za-z0-9]{9}"
_NAME = re.compile(r"[^\[\]{}\s]+")


@dataclass(frozen=True)
class Mistral:
    """All three are read; `listed` and `ids` say which one the template shows. The ids models write are not kept: they
    may repeat.
    """

    listed: bool = False
    ids: bool = False
    openers: tuple[str, ...] = (_OPENER,)
    markers: tuple[str, ...] = (_OPENER, _ID, _ARGUMENTS)
    begins_answers: bool = False
    ends_thought: bool = False

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.expect(_OPENER)
        yield from cursor.space()
        if (yield from cursor.next_is("[", "{")):
            return calls_of((yield from cursor.json()))
        name = yield from cursor.match(_NAME)
        marker = yield from cursor.takes(_ID, _ARGUMENTS)
        if marker == _ID:
            yield from cursor.match(_NAME)
            marker = yield from cursor.takes(_ARGUMENTS)
        if marker != _ARGUMENTS:
            raise Malformed
        yield from cursor.space()
        return [Call.of(name, (yield from cursor.json()))]

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        if self.listed:
            call = one_of(write, tools, "name", "arguments", more=f'(", \\"id\\": \\"" {write.pattern(_NINE)} "\\"")?')
            return f"{write.text(_OPENER)} {listed(write, call, several=several)}"
        id = f"{write.text(_ID)} {write.pattern(_NINE)}" if self.ids else ""
        begun = write.text(_OPENER)
        calls = [
            f"{begun} {write.text(tool)} {id} {write.text(_ARGUMENTS)} {arguments_of(write, tool, parameters)}"
            for tool, parameters in tools.items()
        ]
        call = write.rule(" | ".join(calls))
        return f"{call}+" if several else call


MISTRAL = Mistral()
MISTRAL_LIST = Mistral(listed=True)
MISTRAL_IDS = Mistral(ids=True)
