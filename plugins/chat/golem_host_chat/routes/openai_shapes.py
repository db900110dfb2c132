"""The choices of an OpenAI answer: a chat message's, and a text's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from golem_host_chat.formats.base import Call
from golem_host_chat.routes.reading import Ending, Piece
from golem_host_chat.routes.token_probabilities import TokenWriter


class Shape(Protocol):
    """How one API writes a choice, whole and in pieces."""

    def opening(self, index: int) -> dict[str, Any] | None:
        """What a choice's stream begins with, before any text of the model."""
        ...

    def piece(self, index: int, piece: Piece) -> dict[str, Any]: ...

    def progress(self, index: int) -> dict[str, Any]:
        """A choice that has nothing yet, of a chunk that tells how far its prompt is read."""
        ...

    def end(self, index: int, ending: Ending) -> dict[str, Any]: ...

    def whole(self, index: int, ending: Ending) -> dict[str, Any]: ...


class ChatShape:
    """Choices of `/v1/chat/completions`. A stream opens with the role, which no later piece repeats."""

    def __init__(self, tokens: TokenWriter) -> None:
        self._tokens = tokens
        self._called: dict[int, int] = {}
        """How many calls each choice has made."""

    def opening(self, index: int) -> dict[str, Any] | None:
        return self._delta(index, {"role": "assistant", "content": ""}, None)

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        delta: dict[str, Any] = {}
        if piece.reasoning:
            delta["reasoning_content"] = piece.reasoning
        if piece.content:
            delta["content"] = piece.content
        if piece.calls:
            first = self._called.get(index, 0)
            self._called[index] = first + len(piece.calls)
            delta["tool_calls"] = [
                {"index": place, **_tool_call(call)} for place, call in enumerate(piece.calls, start=first)
            ]
        return self._delta(index, delta or {"content": ""}, None, self._tokens.logprobs(piece.tokens))

    def end(self, index: int, ending: Ending) -> dict[str, Any]:
        return self._delta(index, {}, ending.finish)

    def whole(self, index: int, ending: Ending) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": ending.content, "refusal": None}
        if ending.reasoning:
            message["reasoning_content"] = ending.reasoning
        if ending.calls:
            message["tool_calls"] = [_tool_call(call) for call in ending.calls]
        logprobs = self._tokens.logprobs(ending.completion.probabilities)
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": ending.finish}

    def progress(self, index: int) -> dict[str, Any]:
        return self._delta(index, {}, None)

    @staticmethod
    def _delta(
        index: int, delta: dict[str, Any], finish: str | None, logprobs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}


def _tool_call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


class TextShape:
    """Choices of `/v1/completions`. `echoes` are the texts that precede each choice's answer (`echo`), or none."""

    def __init__(self, tokens: TokenWriter, echoes: Sequence[str] = ()) -> None:
        self._tokens = tokens
        self._echoes = echoes

    def opening(self, index: int) -> dict[str, Any] | None:
        return self._choice(index, self._echo(index), None) if self._echo(index) else None

    def piece(self, index: int, piece: Piece) -> dict[str, Any]:
        return self._choice(index, piece.content, None, self._tokens.logprobs(piece.tokens))

    def progress(self, index: int) -> dict[str, Any]:
        return self._choice(index, "", None)

    def end(self, index: int, ending: Ending) -> dict[str, Any]:
        return self._choice(index, "", ending.finish)

    def whole(self, index: int, ending: Ending) -> dict[str, Any]:
        logprobs = self._tokens.logprobs(ending.completion.probabilities)
        return self._choice(index, self._echo(index) + ending.content, ending.finish, logprobs)

    def _echo(self, index: int) -> str:
        return self._echoes[index] if self._echoes else ""

    @staticmethod
    def _choice(index: int, text: str, finish: str | None, logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
