"""The `input` of `/v1/responses` as chat messages."""

from __future__ import annotations

from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of
from golem_host_chat.routes.translated import members_of, required, texts_of

MEMBERS = {
    "tool_call_id": "call_id",
    "function.arguments": "arguments",
    "function.name": "name",
    "function.description": "description",
    "function.parameters": "parameters",
}
"""Members of chat messages and tools under the names that items and tools have for them."""

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_REASONING = {"reasoning_text": "text", "summary_text": "text"}
_READ = "message, function_call, function_call_output and reasoning items are read"


class Conversation:
    """Chat messages made of items; `places` says which item each came from (see `Translated`).

    What a model wrote in one turn comes as several items: reasoning, a message, calls. They make one message again.
    """

    def __init__(self, fields: Fields) -> None:
        """Raises `BadRequest` naming the item that cannot be read."""
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        self._turn: dict[str, Any] | None = None
        instructions = fields.string("instructions")
        if instructions:
            self._add({"role": "system", "content": instructions}, "instructions")
        value = fields.value("input")
        if isinstance(value, str):
            self._add({"role": "user", "content": value}, "input")
        elif isinstance(value, list):
            for item in members_of(fields, "input"):
                self._item(item)
        elif value is None:
            raise BadRequest("'input' is required", param="input")
        else:
            raise fields.fault("input", f"expected a string or an array of items, got {kind_of(value)}")
        if not self.messages:
            raise fields.fault("input", "the conversation is empty; it needs at least one item")

    def _item(self, item: Fields) -> None:
        kind = item.string("type") or ("message" if item.has("role") else None)
        place = item.prefix.rstrip(".")
        if kind == "message":
            self._message(item, place)
        elif kind == "reasoning":
            self._reasoning(item, place)
        elif kind == "function_call":
            self._call(item, place)
        elif kind == "function_call_output":
            self._turn = None
            output = texts_of(item, "output", _TEXTS)
            self._add({"role": "tool", "tool_call_id": required(item, "call_id"), "content": output}, place)
        elif kind == "item_reference":
            raise item.fault("type", "nothing is kept between requests: send the item itself in place of its id")
        elif kind is None:
            raise item.fault("type", f"is missing: {_READ}")
        else:
            raise item.fault("type", f"{kind!r} is not served: {_READ}")

    def _message(self, item: Fields, place: str) -> None:
        role = required(item, "role")
        if not item.has("content"):
            raise item.fault("content", "is missing")
        content = texts_of(item, "content", _TEXTS)
        if role.lower() != "assistant":
            self._turn = None
            self._add({"role": role, "content": content}, place)
            return
        turn = self._assistant(place, open_to="content")
        turn["content"] = content

    def _reasoning(self, item: Fields, place: str) -> None:
        texts = texts_of(item, "content", _REASONING) or texts_of(item, "summary", _REASONING)
        if not texts:
            raise item.fault("content", "is empty: reasoning is read from 'content' or 'summary'")
        self._turn = None
        text = texts if isinstance(texts, str) else "\n".join(part["text"] for part in texts)
        self._assistant(place, open_to="reasoning_content")["reasoning_content"] = text

    def _call(self, item: Fields, place: str) -> None:
        function = {"name": required(item, "name"), "arguments": item.string("arguments")}
        turn = self._assistant(place)
        calls = turn.setdefault("tool_calls", [])
        self.places[f"messages[{len(self.messages) - 1}].tool_calls[{len(calls)}]"] = place
        calls.append({"id": required(item, "call_id"), "type": "function", "function": function})

    def _assistant(self, place: str, open_to: str = "") -> dict[str, Any]:
        """The message of the model's turn that items add to; a new one where `open_to` would come out of order."""
        turn = self._turn
        if turn is None or (open_to and (open_to in turn or "tool_calls" in turn)):
            turn = {"role": "assistant"}
            self._add(turn, place)
        self._turn = turn
        return turn

    def _add(self, message: dict[str, Any], place: str) -> None:
        self.places[f"messages[{len(self.messages)}]"] = place
        self.messages.append(message)
