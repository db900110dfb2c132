"""Calls as nested tags: Qwen3-Coder and Qwen3.5, Nemotron 3, Seed; with JSON arguments functionary 3.1.

<tool_call>
<function=NAME>
<parameter=KEY>
VALUE
</parameter>
</function>
</tool_call>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from golem_host_chat.formats.base import Call, Malformed, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.tag_values import texts_of, types_of, value_of
from golem_host_chat.formats.tagged_json import SPACES

LINE = "\n"
_NAME = re.compile(r"[^<>\s]+")


@dataclass(frozen=True)
class FunctionTags:
    """A function within the tags `opener` and `closer`; models leave them out, so a declared function's own tag will
    do, too.

    A value ends where a further parameter or the end of the function follows, so that it may speak of tags.
    """

    opener: str
    closer: str
    own_lines: bool = True
    """Values stand on lines of their own: the line breaks next to their tags are no part of them."""
    begins_answers: bool = False
    ends_thought: bool = True

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.opener, "<function=")

    @property
    def markers(self) -> tuple[str, ...]:
        return (self.opener, self.closer)

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        wrapped = yield from cursor.takes(self.opener)
        calls: list[Call] = []
        while True:
            yield from cursor.space()
            calls.append((yield from self._function(cursor, tools)))
            if not wrapped and calls[-1].name not in tools:
                raise Malformed
            if not wrapped:
                yield from self._forgotten_closer(cursor)
                return calls
            yield from cursor.space()
            if (yield from cursor.takes(self.closer)) or (yield from cursor.at_end()):
                return calls

    def _forgotten_closer(self, cursor: Cursor) -> Step[None]:
        at = cursor.at
        yield from cursor.space()
        if not (yield from cursor.takes(self.closer)):
            cursor.at = at

    def _function(self, cursor: Cursor, tools: Tools) -> Step[Call]:
        yield from cursor.expect("<function=")
        name = yield from cursor.match(_NAME)
        yield from cursor.expect(">")
        yield from cursor.space()
        if (yield from cursor.next_is("{")):
            arguments = yield from cursor.json()
            yield from cursor.space()
            yield from cursor.expect("</function>")
            return Call.of(name, arguments)
        arguments = {}
        while not (yield from cursor.takes("</function>")):
            yield from cursor.expect("<parameter=")
            key = yield from cursor.until(">")
            text = yield from self._value(cursor)
            arguments[key] = value_of(text, tools.get(name, {}), key)
            yield from cursor.space()
        return Call.of(name, arguments)

    def _value(self, cursor: Cursor) -> Step[str]:
        """The text of a parameter."""
        text = ""
        while True:
            text += yield from cursor.until("</parameter>")
            after = cursor.at
            yield from cursor.space()
            if (yield from cursor.next_is("<parameter=", "</function>")):
                return text.removeprefix("\n").removesuffix("\n") if self.own_lines else text
            cursor.at = after
            text += "</parameter>"

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        functions = [
            f"{write.text(f'<function={name}>{LINE}')} {self._parameters(write, schema)}"
            for name, schema in tools.items()
        ]
        function = write.rule(" | ".join(functions))
        begin, end = write.text(self.opener + LINE), write.text(f"</function>{LINE}{self.closer}")
        call = write.rule(f"{begin} {function} {end}")
        return f"{call} ({write.pattern(SPACES)} {call})*" if several else call

    def _parameters(self, write: Writer, schema: Mapping[str, Any]) -> str:
        """All required parameters and any of the others, in the order of the schema."""
        line = LINE if self.own_lines else ""
        properties, required = schema.get("properties") or {}, schema.get("required") or ()
        shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
        parts = []
        for key, wanted in properties.items():
            end = f"{line}</parameter>{LINE}"
            types = types_of(wanted)
            if texts := texts_of(wanted):
                value = f"({' | '.join(map(write.text, texts))}) {write.text(end)}"
            elif types and "string" not in types:
                value = f"{write.json({**wanted, **shared})} {write.text(end)}"
            else:
                value = write.until(end)
            part = write.rule(f"{write.text(f'<parameter={key}>{line}')} {value}")
            parts.append(part if key in required else f"{part}?")
        return " ".join(parts)


QWEN = FunctionTags("<tool_call>", "</tool_call>")
SEED = FunctionTags("<seed:tool_call>", "</seed:tool_call>", own_lines=False)
