"""The messages of a chat request: checked, and brought into the one shape chat templates read.

Both dialects come through here: OpenAI's message objects and Ollama's (`thinking`, `tool_name`, `images`). Every
refusal is a `BadRequest` naming `messages[i].field`. Contents are text; parts of other kinds are refused by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Protocol

from golem_host.errors import BadRequest
from golem_host.http.body import parse_object
from golem_host.http.fields import kind_of
from golem_host_chat.template_probes import with_parts

ROLES = ("system", "developer", "user", "assistant", "tool")
_SHORT_ID = re.compile("[A-Za-z0-9]{9}")
_REASONING = ("reasoning_content", "reasoning", "thinking")


class Template(Protocol):
    """What the preparation asks of a chat template (`templates.ChatTemplate`)."""

    @property
    def supports_system(self) -> bool: ...
    @property
    def supports_tool_calls(self) -> bool: ...
    @property
    def requires_typed_content(self) -> bool: ...
    @property
    def takes_object_arguments(self) -> bool: ...
    @property
    def wants_short_ids(self) -> bool: ...
    @property
    def embeds_results(self) -> bool: ...
    @property
    def calls_are_content(self) -> bool: ...


def prepare_messages(raw: Any, template: Template) -> list[dict[str, Any]]:
    """The conversation as `template` reads it; `raw` is the request's `messages`, left as it is.

    Each message comes back as `role`, `content` (text, or text parts where the template wants parts) and, where
    given, `name`, `reasoning_content` and `thinking` (the same text under the two names templates use), `tool_calls`,
    `tool_call_id`.

    `developer` becomes `system`; a system message is put before the text of the next user message where the template
    has no system role; null content is empty text; text parts are joined by newlines; call arguments become an object
    or a JSON string, as the template wants them; a tool result gets the id and the name of the call it answers, results
    follow in the order of the calls. Raises `BadRequest`.
    """
    if not isinstance(raw, list):
        raise BadRequest(f"'messages' must be an array, not {kind_of(raw)}", param="messages")
    if not raw:
        raise BadRequest("'messages' is empty: a conversation needs at least one message", param="messages")
    messages = [_message(item, f"messages[{index}]", template) for index, item in enumerate(raw)]
    messages = _pair_results(messages, template)
    if template.calls_are_content:
        messages = [_with_calls(message) for message in messages]
    if template.embeds_results:
        messages = _embed_results(messages)
    if not template.supports_system:
        messages = _merge_system(messages)
    return with_parts(messages) if template.requires_typed_content else messages


def _message(item: Any, where: str, template: Template) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise BadRequest(f"{where} must be an object, not {kind_of(item)}", param=where)
    role = _text(item, "role", where)
    if role is None:
        raise _refusal(f"{where}.role", "is missing")
    role = role.lower()
    if role not in ROLES:
        raise _refusal(f"{where}.role", f"is {role!r}: expected one of {', '.join(ROLES)}")
    _refuse_unserved(item, where)
    message: dict[str, Any] = {"role": "system" if role == "developer" else role}
    calls = _tool_calls(item, where, role, template)
    reasoning = _reasoning(item, where, role)
    if "content" not in item and not calls and reasoning is None:
        if role == "assistant":
            raise BadRequest(f"{where}: an assistant message needs 'content' or 'tool_calls'", param=f"{where}.content")
        raise BadRequest(f"{where}: All non-assistant messages must contain 'content'", param=f"{where}.content")
    message["content"] = _content(item.get("content"), f"{where}.content")
    name = _text(item, "name", where)
    if reasoning is not None:
        message["reasoning_content"] = message["thinking"] = reasoning
    if calls:
        message["tool_calls"] = calls
    if role == "tool":
        if not template.supports_tool_calls:
            raise _refusal(f"{where}.role", "is 'tool': this model's chat template cannot show tool results")
        call_id = _text(item, "tool_call_id", where)
        if call_id is not None:
            message["tool_call_id"] = call_id
        name = name or _text(item, "tool_name", where)
    if name:
        message["name"] = name
    return message


def _refuse_unserved(item: dict[str, Any], where: str) -> None:
    """Members that mean something and that no text conversation can carry; null and empty ones say nothing."""
    for field in ("refusal", "annotations", "audio", "function_call", "images"):
        if item.get(field) not in (None, [], ""):
            raise _refusal(f"{where}.{field}", "is not served: send text content, reasoning and tool_calls only")


def _content(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _refusal(where, f"must be a string or an array of parts, not {kind_of(content)}")
    return "\n".join(_part(part, f"{where}[{index}]") for index, part in enumerate(content))


def _part(part: Any, where: str) -> str:
    if not isinstance(part, dict):
        raise _refusal(where, f"must be an object with a 'type', not {kind_of(part)}")
    kind = _text(part, "type", where)
    if kind is None:
        raise _refusal(f"{where}.type", "is missing")
    if kind != "text":
        raise _refusal(f"{where}.type", f"is {kind!r}: this model reads parts of type 'text' only")
    text = _text(part, "text", where)
    if text is None:
        raise _refusal(f"{where}.text", "is missing")
    return text


def _reasoning(item: dict[str, Any], where: str, role: str) -> str | None:
    """Earlier reasoning, under whichever names clients of the three servers send it."""
    found: str | None = None
    for field in _REASONING:
        text = _text(item, field, where)
        if not text:
            continue
        if role != "assistant":
            raise _refusal(f"{where}.{field}", "belongs to assistant messages")
        if found is not None and text != found:
            raise _refusal(f"{where}.{field}", "differs from the same reasoning under another name")
        found = text
    return found


def _tool_calls(item: dict[str, Any], where: str, role: str, template: Template) -> list[dict[str, Any]]:
    calls = item.get("tool_calls")
    where = f"{where}.tool_calls"
    if calls is None or calls == []:
        return []
    if not isinstance(calls, list):
        raise _refusal(where, f"must be an array, not {kind_of(calls)}")
    if role != "assistant":
        raise _refusal(where, "belongs to assistant messages")
    if not template.supports_tool_calls:
        raise _refusal(where, "cannot be shown: this model's chat template knows no tool calls")
    return [_tool_call(call, f"{where}[{index}]", template) for index, call in enumerate(calls)]


def _tool_call(call: Any, where: str, template: Template) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise _refusal(where, f"must be an object, not {kind_of(call)}")
    kind = _text(call, "type", where)
    if kind not in (None, "function"):
        raise _refusal(f"{where}.type", f"is {kind!r}: only 'function' calls are served")
    function = call.get("function")
    if not isinstance(function, dict):
        raise _refusal(f"{where}.function", f"must be an object, not {kind_of(function)}")
    name = _text(function, "name", f"{where}.function")
    if not name:
        raise _refusal(f"{where}.function.name", "is missing")
    arguments: Any = _arguments(function.get("arguments"), f"{where}.function.arguments")
    if not template.takes_object_arguments:
        given = function.get("arguments")
        arguments = given if isinstance(given, str) and given else json.dumps(arguments, ensure_ascii=False)
    result: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    call_id = _text(call, "id", where)
    if call_id is not None:
        result["id"] = call_id
    return result


def _arguments(arguments: Any, where: str) -> dict[str, Any]:
    """A call's arguments: clients send JSON text (OpenAI), which is read as a body is, or an object (Ollama); none at
    all is an empty object.
    """
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if isinstance(arguments, str):
        return parse_object(arguments.encode(), where, where)
    if not isinstance(arguments, dict):
        raise _refusal(where, f"must be a JSON object, not {kind_of(arguments)}")
    return arguments


def _pair_results(messages: list[dict[str, Any]], template: Template) -> list[dict[str, Any]]:
    """Tool results with the id and the name of the call they answer, in the order of the calls: not every template
    shows which is which.

    A result that names no id answers the call of its name, or the first that has no result yet.
    """
    names: dict[str, str] = {}
    places: dict[str, int] = {}
    paired: list[dict[str, Any]] = []
    waiting: list[str] = []
    results: list[tuple[int, dict[str, Any]]] = []
    for index, message in enumerate(messages):
        if message["role"] != "tool":
            paired += _in_order(results)
            results = []
        for call in message.get("tool_calls", ()):
            call["id"] = _call_id(call.get("id"), len(names), template)
            names[call["id"]] = call["function"]["name"]
        if message.get("tool_calls"):
            waiting = [call["id"] for call in message["tool_calls"]]
            places = {id: place for place, id in enumerate(waiting)}
        if message["role"] != "tool":
            paired.append(message)
            continue
        id = message.get("tool_call_id")
        if id is None:
            id = next((id for id in waiting if message.get("name", names[id]) == names[id]), None)
        else:
            id = _call_id(id, 0, template)
            if id not in names:
                given = message["tool_call_id"]
                raise _refusal(f"messages[{index}].tool_call_id", f"is {given!r}: no earlier tool call has this id")
        if id is not None:
            waiting = [other for other in waiting if other != id]
            message = {**message, "tool_call_id": id, "name": message.get("name", names[id])}
        before = results[-1][0] if results else 0
        results.append((places.get(id or "", before), message))
    return paired + _in_order(results)


def _in_order(results: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [message for _, message in sorted(results, key=lambda result: result[0])]


def _embed_results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results as `tool_responses` of the message with their calls, and what the assistant says next as its content:
    one turn, as the model wrote it (llama.cpp does the same).
    """
    embedded: list[dict[str, Any]] = []
    for message in messages:
        last = embedded[-1] if embedded else {}
        responses = last.get("tool_responses")
        if message["role"] == "tool" and last.get("tool_calls") and not (responses and last["content"]):
            response = {"name": message.get("name", ""), "response": _json_or_text(message["content"])}
            embedded[-1] = {**last, "tool_responses": [*(responses or ()), response]}
        elif responses and message["role"] == "assistant" and not message.get("tool_calls") and not last["content"]:
            embedded[-1] = {**last, "content": message["content"]}
        else:
            embedded.append(message)
    return embedded


def _with_calls(message: dict[str, Any]) -> dict[str, Any]:
    """An assistant's calls as its content, in Hermes' notation."""
    calls = message.get("tool_calls", ())
    texts = [message["content"]] if message["content"] else []
    for call in calls:
        function = call["function"]
        arguments = function["arguments"]
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        name = json.dumps(function["name"], ensure_ascii=False)
        texts.append(f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>')
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(texts)} if calls else message


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _call_id(id: str | None, count: int, template: Template) -> str:
    """A call's id as the template takes it; `count` numbers a call that has none."""
    if id is None:
        return f"call{count:05}"
    if template.wants_short_ids and not _SHORT_ID.fullmatch(id):
        return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
    return id


def _merge_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each system text moves to the start of the next user message; one with none after it becomes the user's last."""
    merged: list[dict[str, Any]] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(message["content"])
            continue
        if waiting and message["role"] == "user":
            message = {**message, "content": "\n".join([*waiting, message["content"]])}
            waiting = []
        merged.append(message)
    if waiting:
        merged.append({"role": "user", "content": "\n".join(waiting)})
    return merged


def _text(item: dict[str, Any], field: str, where: str) -> str | None:
    """A string member; null is absent."""
    value = item.get(field)
    if value is not None and not isinstance(value, str):
        raise _refusal(f"{where}.{field}", f"must be a string, not {kind_of(value)}")
    return value


def _refusal(where: str, reason: str) -> BadRequest:
    return BadRequest(f"{where} {reason}", param=where)
