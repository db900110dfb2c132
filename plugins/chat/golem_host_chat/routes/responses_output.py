"""What a response of `/v1/responses` is made of: output items, and the events that tell of them as they grow."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from golem_host_chat.formats.base import Call
from golem_host_chat.routes.reading import Piece
from golem_host_chat.routes.token_probabilities import TokenWriter

Event = dict[str, Any]


class Output:
    """The items of one response in the order in which a model writes them; whole answers are the same, taken at once.

    Every event carries `output_index`, and `content_index` where it speaks of a part of an item; numbering them
    (`sequence_number`) is left to the stream.
    """

    def __init__(self, tokens: TokenWriter) -> None:
        self._tokens = tokens
        self.items: list[dict[str, Any]] = []
        self._open: _Text | None = None

    def take(self, piece: Piece) -> Iterator[Event]:
        """The events of one piece more."""
        if piece.reasoning:
            yield from self._write(_Reasoning, piece.reasoning, [])
        if piece.content:
            yield from self._write(_Message, piece.content, self._tokens.response(piece.tokens))
        for call in piece.calls:
            yield from self._close("completed")
            yield from self._called(call)

    def end(self, *, complete: bool) -> Iterator[Event]:
        """The events of the end; unless the answer is `complete`, the item that was being written is `incomplete`."""
        yield from self._close("completed" if complete else "incomplete")

    def _write(self, kind: type[_Text], text: str, logprobs: list[dict[str, Any]]) -> Iterator[Event]:
        if not isinstance(self._open, kind):
            text = text.lstrip("\n") if kind is _Reasoning else text  # what parts thoughts does not begin one
            if not text:
                return
            yield from self._close("completed")
            self._open = kind(len(self.items))
            self.items.append(self._open.item("in_progress"))
            yield from self._open.begin()
        assert self._open is not None
        yield self._open.add(text, logprobs)

    def _close(self, status: str) -> Iterator[Event]:
        if self._open is not None:
            item = self._open.item(status)
            self.items[self._open.index] = item
            yield from self._open.finish(item)
            self._open = None

    def _called(self, call: Call) -> Iterator[Event]:
        index = len(self.items)
        item = {
            "id": _id("fc_"),
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        place = {"item_id": item["id"], "output_index": index}
        written = {"name": call.name, "arguments": call.arguments}
        self.items.append(item)
        begun = {**item, "status": "in_progress", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield {"type": "response.function_call_arguments.delta", **place, "delta": call.arguments}
        yield {"type": "response.function_call_arguments.done", **place, **written}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


class _Text:
    """An item with one part of text, being written."""

    prefix = ""
    event = ""

    def __init__(self, index: int) -> None:
        self.index = index
        self._id = _id(self.prefix)
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        """Of the texts so far."""
        self._place = {"item_id": self._id, "output_index": index, "content_index": 0}

    def begin(self) -> Iterator[Event]:
        added = {**self.item("in_progress"), "content": []}
        yield {"type": "response.output_item.added", "output_index": self.index, "item": added}
        yield {"type": "response.content_part.added", **self._place, "part": self.part("")}

    def add(self, text: str, logprobs: list[dict[str, Any]]) -> Event:
        self._texts.append(text)
        self._logprobs += logprobs
        return {"type": f"response.{self.event}.delta", **self._place, "delta": text, **self.extra(logprobs)}

    def finish(self, item: dict[str, Any]) -> Iterator[Event]:
        text = "".join(self._texts)
        yield {"type": f"response.{self.event}.done", **self._place, "text": text, **self.extra(self._logprobs)}
        yield {"type": "response.content_part.done", **self._place, "part": self.part(text)}
        yield {"type": "response.output_item.done", "output_index": self.index, "item": item}

    def item(self, status: str) -> dict[str, Any]:
        return {"id": self._id, "status": status, "content": [self.part("".join(self._texts))]}

    def part(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def extra(self, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {}


class _Message(_Text):
    prefix, event = "msg_", "output_text"

    def item(self, status: str) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", **super().item(status)}

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(self._logprobs)}

    def extra(self, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"logprobs": list(logprobs)}


class _Reasoning(_Text):
    prefix, event = "rs_", "reasoning_text"

    def item(self, status: str) -> dict[str, Any]:
        return {"type": "reasoning", "summary": [], **super().item(status)}

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "reasoning_text", "text": text}


def _id(prefix: str) -> str:
    return prefix + secrets.token_hex(24)
