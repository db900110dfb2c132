"""Llama 3's calls: the whole answer is `{"name": NAME, "parameters": {...}}`, perhaps after `<|python_tag|>`."""

from __future__ import annotations

from dataclasses import dataclass

from golem_host_chat.formats.base import Call, Malformed, Tools, Writer
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.tagged_json import calls_of, one_of

_TAG = "<|python_tag|>"


@dataclass(frozen=True)
class Llama3:
    """Only objects that name a declared function are calls: answers may be JSON of their own. Several stand one after
    the other, with or without semicolons.
    """

    openers: tuple[str, ...] = (_TAG, "{")
    markers: tuple[str, ...] = (_TAG,)
    begins_answers: bool = True
    ends_thought: bool = False

    def read(self, cursor: Cursor, tools: Tools) -> Step[list[Call]]:
        yield from cursor.takes(_TAG)
        calls: list[Call] = []
        while True:
            yield from cursor.space()
            calls += calls_of((yield from cursor.json()))
            if any(call.name not in tools for call in calls):
                raise Malformed
            end = cursor.at
            yield from cursor.space()
            if not (yield from cursor.takes(";")):
                cursor.at = end
                return calls

    def grammar(self, write: Writer, tools: Tools, *, several: bool) -> str:
        return one_of(write, tools, "name", "parameters")  # the template shows one call at most


LLAMA3 = Llama3()
