"""What a message of `/v1/messages` is made of: content blocks, and the events that tell of them as they grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from golem_host_chat.formats.base import Call
from golem_host_chat.routes.reading import Piece

Event = dict[str, Any]

_BEGUN = {"text": {"type": "text", "text": ""}, "thinking": {"type": "thinking", "thinking": "", "signature": ""}}


class Blocks:
    """The blocks of one message in the order in which a model writes them; whole answers are the same, taken at once.

    Thoughts have an empty signature: nobody checks it here. Without `shows_thinking` they are left out.
    """

    def __init__(self, *, shows_thinking: bool) -> None:
        self.blocks: list[dict[str, Any]] = []
        self._shows_thinking = shows_thinking
        self._open: str | None = None

    def take(self, piece: Piece) -> Iterator[Event]:
        """The events of one piece more."""
        if piece.reasoning and self._shows_thinking:
            yield from self._write("thinking", piece.reasoning)
        if piece.content:
            yield from self._write("text", piece.content)
        for call in piece.calls:
            yield from self.end()
            yield from self._called(call)

    def end(self) -> Iterator[Event]:
        """The event that closes a block that is being written."""
        if self._open is not None:
            self._open = None
            yield {"type": "content_block_stop", "index": len(self.blocks) - 1}

    def _write(self, kind: str, text: str) -> Iterator[Event]:
        if self._open != kind:
            text = text.lstrip("\n") if kind == "thinking" else text  # what parts thoughts does not begin one
            if not text:
                return
            yield from self.end()
            self._open = kind
            self.blocks.append(dict(_BEGUN[kind]))
            yield self._begin(_BEGUN[kind])
        self.blocks[-1][kind] += text
        yield self._delta({"type": f"{kind}_delta", kind: text})

    def _called(self, call: Call) -> Iterator[Event]:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.object}
        self.blocks.append(block)
        yield self._begin({**block, "input": {}})
        yield self._delta({"type": "input_json_delta", "partial_json": call.arguments})
        yield {"type": "content_block_stop", "index": len(self.blocks) - 1}

    def _begin(self, block: dict[str, Any]) -> Event:
        return {"type": "content_block_start", "index": len(self.blocks) - 1, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": len(self.blocks) - 1, "delta": delta}
