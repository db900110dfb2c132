"""What a chat template can do, found by rendering it: the text of a field either reaches the prompt or it does not.

llama.cpp's `common/jinja/caps.cpp` answers the same questions by tracing which values a template reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from golem_host.errors import BadRequest

Messages = Sequence[Mapping[str, Any]]
Render = Callable[[Messages, Messages | None, Mapping[str, Any]], str]
"""(messages, tools, further variables) -> prompt; raises BadRequest when the template refuses or fails."""

_USER = {"role": "user", "content": "Probe question"}
PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "Probe description",
        "parameters": {
            "type": "object",
            "properties": {"probe_key": {"type": "string", "description": "Probe"}},
            "required": ["probe_key"],
        },
    },
}
_HERMES = ("<tool_call>", '"name"', '"arguments"', "</tool_call>")
# Mistral's templates demand ids of nine letters and digits.
_CALL_ID = "probe0001"


@dataclass(frozen=True)
class TemplateAbilities:
    """What a template can do."""

    thinking: bool
    """`enable_thinking` changes the prompt: thinking can be turned on and off."""
    system: bool
    """The text of a leading system message reaches the prompt."""
    tools: bool
    """The prompt names the tools it is given."""
    xml_tools: bool
    """It takes them as `xml_tools`, functions only (SmolLM3)."""
    tool_calls: bool
    """An assistant's calls and their results in the history reach the prompt."""
    told_calls: bool
    """It says how calls are to be written (Hermes' notation), and shows none: they belong into the content."""
    typed_content: bool
    """Contents must be lists of `{"type": "text", "text": ...}`: a plain string would be lost."""
    object_arguments: bool
    """A call's arguments are to be passed as an object; if not, as a JSON string."""
    short_ids: bool
    """Ids of calls must be nine letters and digits (Mistral)."""
    embedded_results: bool
    """Results of calls belong to the assistant's own message, as `tool_responses` (earlier templates of Gemma 4)."""


def probe(render: Render) -> TemplateAbilities:
    """Render some small conversations and look."""
    typed = _needs_parts(render)
    probe = _Probe(render, typed)
    objects = _takes_objects(probe)
    plain = probe([_USER], [PROBE_TOOL])
    xml_tools = "probe_tool" not in plain and "probe_tool" in probe([_USER], xml_tools=[PROBE_TOOL["function"]])
    told = probe([_USER], xml_tools=[PROBE_TOOL["function"]]) if xml_tools else plain
    shows_calls = _shows_calls(probe, objects)
    return TemplateAbilities(
        thinking=probe([_USER], enable_thinking=True) != probe([_USER], enable_thinking=False),
        system="PROBE-SYSTEM" in probe([{"role": "system", "content": "PROBE-SYSTEM"}, _USER]),
        tools="probe_tool" in told,
        xml_tools=xml_tools,
        tool_calls=shows_calls,
        told_calls=not shows_calls and all(part in told for part in _HERMES) and _shows_results(probe),
        typed_content=typed,
        object_arguments=objects,
        embedded_results=_embeds_results(probe, objects),
        short_ids=bool(_called(probe, objects=objects)) and not _called(probe, objects=objects, id="call_0123456789"),
    )


def with_parts(messages: Messages) -> list[dict[str, Any]]:
    """`messages` with each text content as a list of one text part, or of none."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}] if message["content"] else []}
        for message in messages
    ]


class _Probe:
    """Renders messages with text contents the way the template reads them; nothing when it refuses."""

    def __init__(self, render: Render, typed: bool) -> None:
        self._render = render
        self._typed = typed

    def __call__(self, messages: Messages, tools: Messages | None = None, **variables: Any) -> str:
        try:
            return self._render(with_parts(messages) if self._typed else messages, tools, variables)
        except BadRequest:
            return ""


def _needs_parts(render: Render) -> bool:
    message = [{"role": "user", "content": "PROBE-TEXT"}]
    return "PROBE-TEXT" not in _Probe(render, False)(message) and "PROBE-TEXT" in _Probe(render, True)(message)


def probe_call(*, objects: bool, id: str = _CALL_ID) -> dict[str, Any]:
    """An assistant's message that calls the probing tool."""
    arguments = {"probe_key": "PROBE-VALUE"} if objects else '{"probe_key": "PROBE-VALUE"}'
    function = {"name": "probe_tool", "arguments": arguments}
    call = {"id": id, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _called(probe: _Probe, *, objects: bool, id: str = _CALL_ID) -> str:
    """A call and its result rendered, without tools where the template allows it."""
    result = {"role": "tool", "content": "PROBE-RESULT", "tool_call_id": id, "name": "probe_tool"}
    history = [_USER, probe_call(objects=objects, id=id), result]
    without = probe(history)
    return without if "PROBE-VALUE" in without else probe(history, [PROBE_TOOL])


def _takes_objects(probe: _Probe) -> bool:
    text = _called(probe, objects=True)
    # A template that prints the arguments as they come shows Python's notation for an object.
    return "PROBE-VALUE" in text and "{'probe_key'" not in text


def _shows_calls(probe: _Probe, objects: bool) -> bool:
    text = _called(probe, objects=objects)
    return all(part in text for part in ("probe_tool", "PROBE-VALUE", "PROBE-RESULT"))


def _shows_results(probe: _Probe) -> bool:
    history = [_USER, {"role": "assistant", "content": "x"}, {"role": "tool", "content": "PROBE-RESULT"}]
    return "PROBE-RESULT" in probe(history)


def _embeds_results(probe: _Probe, objects: bool) -> bool:
    """Whether the template shows results within the assistant's message otherwise than as messages of their own."""
    response = {"name": "probe_tool", "response": "PROBE-RESULT"}
    embedded = probe([_USER, {**probe_call(objects=objects), "tool_responses": [response]}], [PROBE_TOOL])
    before, found, _ = embedded.rpartition("PROBE-RESULT")
    return bool(found) and before[-16:] + found not in _called(probe, objects=objects)
