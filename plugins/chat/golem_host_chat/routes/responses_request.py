"""The fields of `/v1/responses`, as those of a chat request."""

from __future__ import annotations

from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of
from golem_host_chat.routes.responses_items import MEMBERS, Conversation
from golem_host_chat.routes.token_probabilities import MOST
from golem_host_chat.routes.translated import Translated, members_of, required
from golem_host_chat.routes.unserved import TRANSLATED, refuse_unserved

_KEPT = "responses are not kept: send the whole conversation as input"
_OWN = ("input", "instructions", "include", "text", "tools", "tool_choice", "max_output_tokens", "stream_options")
_FIELDS = {
    "max_tokens": "max_output_tokens",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
}


def translate(fields: Fields) -> Translated:
    """The chat request that answers this one. Raises `BadRequest` naming what is not served.

    Fields that this API has not, such as llama-server's for sampling, stay as they are.
    """
    _refuse(fields)
    conversation = Conversation(fields)
    body = {name: value for name, value in fields.obj.items() if name not in _OWN}
    body["messages"] = conversation.messages
    body["max_tokens"] = fields.integer("max_output_tokens", minimum=0, maximum=2**31 - 1)
    body["tools"], body["tool_choice"] = _tools(fields)
    body["response_format"] = _response_format(fields)
    included = fields.array("include") or []
    body["top_logprobs"] = fields.integer("top_logprobs", 0, minimum=0, maximum=MOST)
    body["logprobs"] = "message.output_text.logprobs" in included or body["top_logprobs"] > 0
    return Translated(body, conversation.places, MEMBERS, _FIELDS)


def _refuse(fields: Fields) -> None:
    fields.refuse("previous_response_id", _KEPT, neutral=("",))
    fields.refuse("store", _KEPT, neutral=(False,))
    fields.refuse("conversation", _KEPT)
    fields.refuse("background", "an answer comes with its request", neutral=(False,))
    fields.refuse("prompt", "there are no stored prompts: send input")
    fields.refuse("context_management", "nothing is left out of a conversation", neutral=([],))
    fields.refuse("truncation", "a conversation that does not fit is refused", neutral=("disabled",))
    for name in ("n", "n_cmpl"):
        fields.refuse(name, "a request gets one response", neutral=(1,))
    refuse_unserved(fields, TRANSLATED)


def _tools(fields: Fields) -> tuple[list[dict[str, Any]] | None, Any]:
    """The functions and the choice among them. Allowed tools are the only ones the model is shown."""
    tools = [_tool(tool) for tool in members_of(fields, "tools")]
    choice = fields.value("tool_choice")
    if isinstance(choice, dict):
        chosen = Fields(choice, "tool_choice.")
        kind = chosen.string("type")
        if kind == "function":
            choice = {"type": "function", "function": {"name": required(chosen, "name")}}
        elif kind == "allowed_tools":
            names = {required(tool, "name") for tool in members_of(chosen, "tools")}
            unknown = names - {tool["function"]["name"] for tool in tools}
            if unknown:
                raise chosen.fault("tools", f"there is no tool {min(unknown)!r}")
            tools = [tool for tool in tools if tool["function"]["name"] in names]
            choice = required(chosen, "mode")
        else:
            raise chosen.fault("type", f"{kind!r} is not served: function and allowed_tools are")
    elif choice is not None and not isinstance(choice, str):
        raise fields.fault("tool_choice", f"expected a string or an object, got {kind_of(choice)}")
    return tools or None, choice


def _tool(tool: Fields) -> dict[str, Any]:
    kind = tool.string("type")
    if kind != "function":
        raise tool.fault("type", f"{kind!r} is not served: tools are functions that the caller runs")
    function: dict[str, Any] = {"name": required(tool, "name")}
    for name, value in (("description", tool.string("description")), ("parameters", tool.object("parameters"))):
        if value is not None:
            function[name] = value
    if tool.boolean("strict") is not None:
        function["strict"] = tool.boolean("strict")
    return {"type": "function", "function": function}


def _response_format(fields: Fields) -> dict[str, Any] | None:
    text = Fields(fields.object("text") or {}, "text.")
    wanted = text.object("format")
    given = fields.object("response_format")
    if wanted is None:
        return given
    if given is not None:
        raise BadRequest("'text.format' and 'response_format' are both given", param="response_format")
    if wanted.get("type") != "json_schema":
        return wanted
    return {"type": "json_schema", "json_schema": {name: value for name, value in wanted.items() if name != "type"}}
