"""The functions a request lets the model call: `tools`, `tool_choice`, `parallel_tool_calls`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of
from golem_host_chat.formats.base import Tools

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime

MAX_NAME = 256
_NAME = re.compile(r"[^\s\[\]{}<>\"]+")
"""What every notation of calls can carry."""


@dataclass(frozen=True)
class Tooling:
    """What may be called. `declared` is what the template shows, `schemas` the parameters by name. With `single` an
    answer has one call at most. Of the functions in `required` one must be called.
    """

    declared: Sequence[dict[str, Any]] = ()
    schemas: Tools = field(default_factory=dict)
    single: bool = False
    required: tuple[str, ...] = ()


NO_TOOLS = Tooling()


def openai_tools(fields: Fields) -> Tooling:
    """The functions of an OpenAI request. Raises `BadRequest` naming the field at fault.

    With `tool_choice` none the model is not told of them (golem).
    """
    tooling = ollama_tools(fields)
    choice = fields.value("tool_choice")
    parallel = fields.boolean("parallel_tool_calls", True)
    if choice == "none":
        return NO_TOOLS
    if choice in (None, "auto"):
        return replace(tooling, single=not parallel)
    required = _required(fields, choice, tooling)
    return replace(tooling, single=not parallel or choice != "required", required=required)


def ollama_tools(fields: Fields) -> Tooling:
    """The functions of an Ollama request."""
    declared = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.array("tools") or ())]
    schemas: dict[str, dict[str, Any]] = {}
    for index, tool in enumerate(declared):
        name = tool["function"]["name"]
        if name in schemas:
            raise _fault(f"tools[{index}].function.name", f"{name!r} is declared twice")
        schemas[name] = tool["function"]["parameters"]
    return Tooling(declared, schemas)


def require_tools(runtime: ChatRuntime, tooling: Tooling) -> None:
    """Raise `BadRequest` when there are tools and the model has no way to be told of them, or to call them."""
    template = runtime.template
    if not tooling.declared or template is None or template.call_format is not None:
        return
    why = "shows calls in no way that is read here" if template.supports_tools else "knows no tools"
    raise BadRequest(f'"{runtime.model.name}" does not support tools: its chat template {why}', param="tools")


def _required(fields: Fields, choice: Any, tooling: Tooling) -> tuple[str, ...]:
    """The functions of which one must be called: any, or the one that is named."""
    if choice != "required" and not isinstance(choice, dict):
        raise BadRequest(f"Invalid tool_choice: {choice!r}", param="tool_choice")
    if not tooling.declared:
        raise fields.fault("tool_choice", "there are no tools to choose from")
    if choice == "required":
        return tuple(tooling.schemas)
    asked = Fields(choice, "tool_choice.")
    if asked.string("type") != "function":
        raise asked.fault("type", f"expected 'function', got {asked.value('type')!r}")
    name = Fields(asked.object("function") or {}, "tool_choice.function.").string("name", "")
    if name not in tooling.schemas:
        raise BadRequest(f"Field 'tool_choice.function.name': no tool is called {name!r}", param="tool_choice")
    return (name,)


def _tool(tool: Any, where: str) -> dict[str, Any]:
    """One tool as templates read it: all members there, and no others."""
    if not isinstance(tool, dict):
        raise _fault(where, f"expected an object, got {kind_of(tool)}")
    if tool.get("type", "function") != "function":
        raise _fault(f"{where}.type", f"{tool['type']!r} is not served: only functions are")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise _fault(f"{where}.function", f"expected an object, got {kind_of(function)}")
    name, description, parameters = (function.get(member) for member in ("name", "description", "parameters"))
    if not isinstance(name, str):
        raise _fault(f"{where}.function.name", f"expected a string, got {kind_of(name)}")
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise _fault(f"{where}.function.name", f"1 to {MAX_NAME} characters, no spaces, brackets or quotes")
    if not isinstance(description, str | None):
        raise _fault(f"{where}.function.description", f"expected a string, got {kind_of(description)}")
    if not isinstance(parameters, dict | None):
        raise _fault(f"{where}.function.parameters", f"expected an object, got {kind_of(parameters)}")
    shown = {"name": name, "description": description or "", "parameters": parameters or _NO_PARAMETERS}
    return {"type": "function", "function": shown}


_NO_PARAMETERS = {"type": "object", "properties": {}}


def _fault(where: str, reason: str) -> BadRequest:
    return BadRequest(f"Field '{where}': {reason}", param=where)
