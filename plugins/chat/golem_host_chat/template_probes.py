"""What a chat template can do, found by rendering it: the text of a field either reaches the prompt or it does not.

llama.cpp's `common/jinja/caps.cpp` answers the same questions by tracing which values a template reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golem_host.errors import BadRequest

Render = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None, bool, Mapping[str, Any]], str]

_USER = {"role": "user", "content": "Probe question"}
_TOOL = {
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
# Mistral's templates demand ids of nine letters and digits.
_CALL_ID = "probe0001"


def _try(
    render: Render, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **variables: Any
) -> str:
    """The rendering, or nothing when the template refuses it."""
    try:
        return render(messages, tools, True, variables)
    except BadRequest:
        return ""


def switches_thinking(render: Render) -> bool:
    return _try(render, [_USER], enable_thinking=True) != _try(render, [_USER], enable_thinking=False)


def shows_system(render: Render) -> bool:
    return "PROBE-SYSTEM" in _try(render, [{"role": "system", "content": "PROBE-SYSTEM"}, _USER])


def shows_tools(render: Render) -> bool:
    return "probe_tool" in _try(render, [_USER], [_TOOL])


def needs_parts(render: Render) -> bool:
    if "PROBE-TEXT" in _try(render, [{"role": "user", "content": "PROBE-TEXT"}]):
        return False
    return "PROBE-TEXT" in _try(render, [{"role": "user", "content": [{"type": "text", "text": "PROBE-TEXT"}]}])


def _history(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": _CALL_ID, "type": "function", "function": {"name": "probe_tool", "arguments": arguments}}
    return [
        _USER,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "PROBE-RESULT", "tool_call_id": _CALL_ID, "name": "probe_tool"},
    ]


def _called(render: Render, arguments: Any) -> str:
    """A call and its result rendered, without tools where the template allows it."""
    without = _try(render, _history(arguments))
    return without if "PROBE-VALUE" in without else _try(render, _history(arguments), [_TOOL])


def takes_objects(render: Render) -> bool:
    text = _called(render, {"probe_key": "PROBE-VALUE"})
    # A template that prints the arguments as they come shows Python's notation for an object.
    return "PROBE-VALUE" in text and "{'probe_key'" not in text


def shows_calls(render: Render) -> bool:
    text = _called(render, {"probe_key": "PROBE-VALUE"} if takes_objects(render) else '{"probe_key": "PROBE-VALUE"}')
    return all(part in text for part in ("probe_tool", "PROBE-VALUE", "PROBE-RESULT"))
