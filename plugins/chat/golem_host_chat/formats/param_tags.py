"""MiniCPM5's calls: `<function name="NAME"><param name="KEY">VALUE</param></function>`, texts perhaps as CDATA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from golem_host_chat.formats.base import Call, Malformed, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.tag_values import texts_of, types_of, value_of
from golem_host_chat.formats.tagged_json import SPACES

_FUNCTION, _PARAM, _NAMED = '<function name="', '<param name="', '">'
_END, _PARAM_END = "</function>", "</param>"
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_PLAIN = r"[^<&\n]*"


@dataclass(frozen=True)
class ParamTags:
    """Only declared functions are called: answers may speak of XML."""

    openers: tuple[str, ...] = (_FUNCTION,)
    markers: tuple[str, ...] = (_FUNCTION, _END)
    begins_answers: bool = False
    ends_thought: bool = False

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.expect(_FUNCTION)
        name = yield from cursor.until(_NAMED)
        if name not in tools:
            raise Malformed
        arguments: dict[str, Any] = {}
        yield from cursor.space()
        while not (yield from cursor.takes(_END)):
            yield from cursor.expect(_PARAM)
            key = yield from cursor.until(_NAMED)
            if (yield from cursor.takes(_CDATA)):
                text = yield from cursor.until(_CDATA_END + _PARAM_END)
            else:
                text = yield from cursor.until(_PARAM_END)
            arguments[key] = value_of(text, tools[name], key)
            yield from cursor.space()
        return [Call.of(name, arguments)]

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        calls = [
            f"{write.text(_FUNCTION + name + _NAMED)} {_parameters(write, schema)} {write.text(_END)}"
            for name, schema in tools.items()
        ]
        call = write.rule(" | ".join(calls))
        return f"{call} ({write.pattern(SPACES)} {call})*" if several else call


def _parameters(write: Writer, schema: Mapping[str, Any]) -> str:
    """All required parameters and any of the others, in the order of the schema."""
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    parts = []
    for key, wanted in (schema.get("properties") or {}).items():
        types = types_of(wanted)
        if texts := texts_of(wanted):
            value = f"({' | '.join(map(write.text, texts))})"
        elif types and "string" not in types:
            value = write.json({**wanted, **shared})
        else:
            value = f"({write.pattern(_PLAIN)} | {write.text(_CDATA)} {write.until(_CDATA_END)})"
        part = write.rule(f"{write.text(_PARAM + key + _NAMED)} {value} {write.text(_PARAM_END)}")
        parts.append(part if key in (schema.get("required") or ()) else f"{part}?")
    return " ".join(parts)


PARAM_TAGS = ParamTags()
