"""Which notation of calls a chat template uses: it is shown a call, and the notation that reads it back is the one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from golem_host.errors import BadRequest
from golem_host_chat.formats.base import Call, CallFormat, Malformed
from golem_host_chat.formats.cursor import Cursor, Step
from golem_host_chat.formats.deepseek import DEEPSEEK, DEEPSEEK_PLAIN
from golem_host_chat.formats.function_tags import QWEN, SEED
from golem_host_chat.formats.gemma4 import GEMMA4
from golem_host_chat.formats.llama3 import LLAMA3
from golem_host_chat.formats.mistral import MISTRAL, MISTRAL_IDS, MISTRAL_LIST
from golem_host_chat.formats.param_tags import PARAM_TAGS
from golem_host_chat.formats.tagged_json import ARGUMENTS as ARGUMENT_KEYS
from golem_host_chat.formats.tagged_json import HERMES, NAMES, TaggedJson, calls_of
from golem_host_chat.formats.thoughts import Thought

FORMATS: tuple[CallFormat, ...] = (GEMMA4, QWEN, SEED, MISTRAL, DEEPSEEK, PARAM_TAGS, HERMES, LLAMA3)
"""What is tried, in this order, before tags of the template's own around JSON."""

Show = Callable[[Sequence[Mapping[str, Any]]], str]
"""A conversation as the template renders it, with the probing tool declared; raises BadRequest."""

NAME, ARGUMENTS = "probe_tool", {"probe_key": "PROBE-VALUE"}
_QUESTION = {"role": "user", "content": "Probe question"}
_CONTENT = "PROBE-CONTENT"
_TAG = re.compile(r"<[^<>]+>")


def find_format(show: Show, called: Mapping[str, Any], thought: Thought | None) -> CallFormat | None:
    """The notation of a template, None when it shows calls in no way that could be read.

    `called` is an assistant's message that calls `NAME` with `ARGUMENTS`, as the template takes it.
    """
    try:
        plain = show([_QUESTION, {"role": "assistant", "content": _CONTENT}])
        calling = show([_QUESTION, called])
    except BadRequest:
        return None
    before, _, ending = plain.rpartition(_CONTENT)
    answer = calling[_shared(before, calling) :]
    known = next((format for format in FORMATS if _reads_back(format, answer, thought)), None)
    if known is MISTRAL:
        return MISTRAL_IDS if "[CALL_ID]" in answer else MISTRAL_LIST if "[ARGS]" not in answer else MISTRAL
    if known is DEEPSEEK and "```" not in answer:
        return DEEPSEEK_PLAIN
    return known or _own_tags(answer, ending, thought)


def _reads_back(format: CallFormat, answer: str, thought: Thought | None) -> bool:
    found = re.search("|".join(map(re.escape, format.openers)), answer)
    if found is None or _said(answer[: found.start()], thought):
        return False
    cursor = Cursor(answer[found.start() :])
    return _is_probe(_run(format.read(cursor, {NAME: {}}), cursor))


def _own_tags(answer: str, ending: str, thought: Thought | None) -> TaggedJson | None:
    """Whatever a template writes around the JSON of a call, up to the end of the turn."""
    for found in re.finditer(r"[\[{]", answer):
        cursor = Cursor(answer)
        cursor.at = found.start()
        if _is_probe(_run(_json_calls(cursor), cursor)):
            opener = _said(answer[: found.start()], thought)
            closer = answer[cursor.at :]
            closer = closer[: len(closer) - _shared_end(closer, ending)].strip()
            tag = _TAG.match(closer)
            if not opener:
                return None
            shown = answer[found.start() : cursor.at]
            name, arguments = (next(key for key in keys if f'"{key}"' in shown) for keys in (NAMES, ARGUMENT_KEYS))
            return TaggedJson(opener, tag[0] if tag else closer, name, arguments, listed=shown[0] == "[")
    return None


def _json_calls(cursor: Cursor) -> Step[list[Call]]:
    return calls_of((yield from cursor.json()))


def _run(reading: Step[list[Call]], cursor: Cursor) -> list[Call]:
    """The calls at `cursor`, whose text is whole; none for what is malformed."""
    cursor.end()
    try:
        while True:
            next(reading)
    except StopIteration as stop:
        return stop.value
    except Malformed:
        return []


def _is_probe(calls: list[Call]) -> bool:
    return [(call.name, call.object) for call in calls] == [(NAME, ARGUMENTS)]


def _said(text: str, thought: Thought | None) -> str:
    """What is left of `text` without the markers of a thought and the space around."""
    for marker in thought.markers if thought else ():
        text = text.replace(marker, "")
    return text.strip()


def _shared(one: str, other: str) -> int:
    """How many characters both begin with, a tag they only begin alike left out."""
    shared = _alike(one, other)
    return shared.rfind("<") if shared.rfind("<") > shared.rfind(">") else len(shared)


def _shared_end(one: str, other: str) -> int:
    """How many characters both end with, a tag they only end alike left out."""
    shared = _alike(one[::-1], other[::-1])[::-1]
    cut = shared.find(">") < shared.find("<") and ">" in shared
    return len(shared) - shared.find("<") if cut else len(shared)


def _alike(one: str, other: str) -> str:
    differs = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:differs]
