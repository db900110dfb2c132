"""DeepSeek's calls, in the notations of R1 and its distillates, and of V3.1.

R1: `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`, a fenced block of JSON on the lines below,
`<｜tool▁call▁end｜>`, perhaps more of them, `<｜tool▁calls▁end｜>`; V3.1: `NAME<｜tool▁sep｜>{...}` within the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from golem_host_chat.formats.base import Call, Malformed, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.tagged_json import SPACES, arguments_of

_ALL, _ALL_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_ONE, _ONE_END, _APART = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_FENCE = "```"
_NAME = re.compile(r"[^\s<`{]+")


@dataclass(frozen=True)
class DeepSeek:
    """Both are read; `fenced` says which one the template shows. The last marker may be missing where the answer
    ends.
    """

    fenced: bool = True
    openers: tuple[str, ...] = (_ALL,)
    markers: tuple[str, ...] = (_ALL, _ALL_END, _ONE, _ONE_END, _APART)
    begins_answers: bool = False
    ends_thought: bool = False

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.expect(_ALL)
        calls: list[Call] = []
        while True:
            yield from cursor.space()
            if calls and ((yield from cursor.takes(_ALL_END)) or (yield from cursor.at_end())):
                return calls
            yield from cursor.expect(_ONE)
            calls.append((yield from self._call(cursor)))
            yield from cursor.space()
            if not (yield from cursor.takes(_ONE_END)) and not (yield from cursor.at_end()):
                raise Malformed

    def _call(self, cursor: Cursor) -> Step[Call]:
        name = (yield from cursor.until(_APART)).strip()
        yield from cursor.space()
        if (yield from cursor.next_is("{")):
            return Call.of(name, (yield from cursor.json()))
        name = yield from cursor.match(_NAME)
        yield from cursor.space()
        yield from cursor.expect(f"{_FENCE}json")
        yield from cursor.space()
        arguments = yield from cursor.json()
        yield from cursor.space()
        yield from cursor.expect(_FENCE)
        return Call.of(name, arguments)

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        calls = []
        for tool, parameters in tools.items():
            begin = f"{_ONE}function{_APART}{tool}\n{_FENCE}json\n" if self.fenced else f"{_ONE}{tool}{_APART}"
            end = f"\n{_FENCE}{_ONE_END}" if self.fenced else _ONE_END
            calls.append(f"{write.text(begin)} {arguments_of(write, tool, parameters)} {write.text(end)}")
        call = write.rule(" | ".join(calls))
        more = f"({write.pattern(SPACES)} {call})*" if several else ""
        return f"{write.text(_ALL)} {call} {more} {write.text(_ALL_END)}"


DEEPSEEK = DeepSeek()
DEEPSEEK_PLAIN = DeepSeek(fenced=False)
