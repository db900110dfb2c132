"""The fields of `/v1/messages`, as those of a chat request."""

from __future__ import annotations

from typing import Any

from golem_host.http.fields import Fields
from golem_host_chat.routes.anthropic_blocks import MEMBERS, Conversation
from golem_host_chat.routes.translated import Translated, members_of, required
from golem_host_chat.routes.unserved import MESSAGES, TRANSLATED, refuse_unserved

_OWN = ("system", "messages", "tools", "tool_choice", "stop_sequences", "thinking", "output_config", "metadata")
_FIELDS = {
    "stop": "stop_sequences",
    "response_format.json_schema": "output_config.format",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
    "reasoning_budget_tokens": "thinking.budget_tokens",
}


def translate(fields: Fields) -> Translated:
    """The chat request that answers this one. Raises `BadRequest` naming what is not served.

    Fields that this API has not, such as llama-server's for sampling, stay as they are.
    """
    _refuse(fields)
    conversation = Conversation(fields)
    body = {name: value for name, value in fields.obj.items() if name not in _OWN}
    body["messages"] = conversation.messages
    body["stop"] = fields.array("stop_sequences")
    body["tools"] = [_tool(tool) for tool in members_of(fields, "tools")] or None
    body["tool_choice"], body["parallel_tool_calls"] = _tool_choice(fields)
    config = Fields(fields.object("output_config") or {}, "output_config.")
    body.update(_thinking(fields, config))
    body["response_format"] = _response_format(config)
    return Translated(body, conversation.places, MEMBERS, _FIELDS)


def shows_thinking(fields: Fields) -> bool:
    """Whether thoughts leave with the answer (`thinking.display`)."""
    thinking = Fields(fields.object("thinking") or {}, "thinking.")
    display = thinking.string("display") or "summarized"
    if display not in ("summarized", "omitted"):
        raise thinking.fault("display", f"{display!r} is unknown: expected summarized or omitted")
    return display == "summarized"


def _refuse(fields: Fields) -> None:
    fields.refuse("container", "there are no tools that run here")
    fields.refuse("mcp_servers", "there are no tools that run here", neutral=([],))
    fields.refuse("context_management", "nothing is left out of a conversation")
    fields.refuse("output_format", "send it as output_config.format")
    for name in ("n", "n_cmpl"):
        fields.refuse(name, "a request gets one message", neutral=(1,))
    refuse_unserved(fields, TRANSLATED, MESSAGES)


def _tool(tool: Fields) -> dict[str, Any]:
    kind = tool.string("type") or "custom"
    if kind != "custom":
        raise tool.fault("type", f"{kind!r} is not served: tools are functions that the caller runs")
    tool.refuse("defer_loading", "every tool is shown to the model", neutral=(False,))
    schema = tool.object("input_schema")
    if schema is None:
        raise tool.fault("input_schema", "is missing")
    function: dict[str, Any] = {"name": required(tool, "name"), "parameters": schema}
    description, strict = tool.string("description"), tool.boolean("strict")
    if description is not None:
        function["description"] = description
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def _tool_choice(fields: Fields) -> tuple[Any, bool | None]:
    """The choice among tools, and whether several may be called at once (None: not said)."""
    choice = Fields(fields.object("tool_choice") or {}, "tool_choice.")
    if not choice.obj:
        return None, None
    kind = required(choice, "type")
    words = {"auto": "auto", "any": "required", "none": "none"}
    if kind != "tool" and kind not in words:
        raise choice.fault("type", f"{kind!r} is unknown: expected one of auto, any, tool, none")
    named = {"type": "function", "function": {"name": required(choice, "name")}} if kind == "tool" else words[kind]
    alone = choice.boolean("disable_parallel_tool_use")
    return named, None if alone is None else not alone


def _thinking(fields: Fields, config: Fields) -> dict[str, Any]:
    """The fields that turn thinking on or off; an effort means something only where it is on."""
    thinking = Fields(fields.object("thinking") or {}, "thinking.")
    if not thinking.obj:
        return {}
    kind = required(thinking, "type")
    if kind not in ("enabled", "adaptive", "disabled"):
        raise thinking.fault("type", f"{kind!r} is not served: enabled, adaptive and disabled are")
    kwargs = {**(fields.object("chat_template_kwargs") or {}), "enable_thinking": kind != "disabled"}
    asked: dict[str, Any] = {"chat_template_kwargs": kwargs}
    if kind != "disabled":
        asked["reasoning_effort"] = config.string("effort")
    if kind == "enabled":
        asked["reasoning_budget_tokens"] = thinking.integer("budget_tokens", minimum=0, maximum=2**31 - 1)
    return asked


def _response_format(config: Fields) -> dict[str, Any] | None:
    wanted = Fields(config.object("format") or {}, "output_config.format.")
    if not wanted.obj:
        return None
    kind = required(wanted, "type")
    if kind != "json_schema":
        raise wanted.fault("type", f"{kind!r} is not served: json_schema is")
    schema = wanted.object("schema")
    if schema is None:
        raise wanted.fault("schema", "is missing")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
