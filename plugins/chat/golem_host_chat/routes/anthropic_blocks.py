"""The messages of `/v1/messages`, made of content blocks, as chat messages."""

from __future__ import annotations

import json
from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of
from golem_host_chat.routes.translated import members_of, required, texts_of

MEMBERS = {
    "tool_call_id": "tool_use_id",
    "function.arguments": "input",
    "function.name": "name",
    "function.description": "description",
    "function.parameters": "input_schema",
}
"""Members of chat messages and tools under the names that blocks and tools have for them."""

_ROLES = ("user", "assistant", "system")
_TEXT = {"text": "text"}
_BLOCKS = {"user": ("text", "tool_result"), "system": ("text",), "assistant": ("text", "thinking", "tool_use")}


class Conversation:
    """Chat messages made of messages of blocks; `places` says which each came from (see `Translated`).

    Messages of one role that follow each other are one turn. Results of tools are messages of their own.
    """

    def __init__(self, fields: Fields) -> None:
        """Raises `BadRequest` naming the block that cannot be read."""
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        if fields.array("messages") is None:
            raise BadRequest("'messages' is required", param="messages")
        system = texts_of(fields, "system", _TEXT)
        if system:
            self._add({"role": "system", "content": system}, "system")
        turns = members_of(fields, "messages")
        if not turns:
            raise fields.fault("messages", "the conversation is empty; it needs at least one message")
        for turn in turns:
            role = required(turn, "role")
            if role not in _ROLES:
                raise turn.fault("role", f"{role!r} is unknown: expected one of {', '.join(_ROLES)}")
            self._turn(role, _blocks(turn), turn.prefix.rstrip("."))

    def _turn(self, role: str, blocks: list[Fields], place: str) -> None:
        if not blocks:
            self._said(role, place)["content"].append({"type": "text", "text": ""})
        for block in blocks:
            kind = block.string("type")
            if kind not in _BLOCKS[role]:
                read = ", ".join(_BLOCKS[role])
                raise block.fault("type", f"{kind!r} is not served in a message of the {role}: {read} blocks are read")
            if kind == "tool_result":
                result = {"role": "tool", "tool_call_id": required(block, "tool_use_id")}
                self._add({**result, "content": texts_of(block, "content", _TEXT)}, block.prefix.rstrip("."))
            elif kind == "tool_use":
                self._call(block, self._said(role, place))
            elif kind == "thinking":
                said = self._said(role, place)
                said["reasoning_content"] = said.get("reasoning_content", "") + block.string("thinking", "")
            else:
                text = block.string("text")
                if text is None:
                    raise block.fault("text", "is missing")
                self._said(role, place)["content"].append({"type": "text", "text": text})

    def _call(self, block: Fields, said: dict[str, Any]) -> None:
        arguments = json.dumps(block.object("input") or {}, ensure_ascii=False)
        calls = said.setdefault("tool_calls", [])
        where = f"messages[{len(self.messages) - 1}].tool_calls[{len(calls)}]"
        self.places[where] = block.prefix.rstrip(".")
        function = {"name": required(block, "name"), "arguments": arguments}
        calls.append({"id": required(block, "id"), "type": "function", "function": function})

    def _said(self, role: str, place: str) -> dict[str, Any]:
        """The message that blocks of this role add to."""
        if not self.messages or self.messages[-1]["role"] != role or place == "system":
            self._add({"role": role, "content": []}, place)
        return self.messages[-1]

    def _add(self, message: dict[str, Any], place: str) -> None:
        self.places[f"messages[{len(self.messages)}]"] = place
        self.messages.append(message)


def _blocks(turn: Fields) -> list[Fields]:
    content = turn.value("content")
    if isinstance(content, str):
        return [Fields({"type": "text", "text": content}, f"{turn.prefix}content.")]
    if not isinstance(content, list):
        raise turn.fault("content", f"expected a string or an array of blocks, got {kind_of(content)}")
    return members_of(turn, "content")
