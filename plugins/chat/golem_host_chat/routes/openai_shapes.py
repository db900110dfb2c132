"""The choices of an OpenAI answer: a chat message's, and a text's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from golem_host_chat.generation import Completion


class Shape(Protocol):
    """How one API writes a choice, whole and in pieces."""

    def opening(self, index: int) -> dict[str, Any] | None:
        """What a choice's stream begins with, before any text of the model."""
        ...

    def piece(self, index: int, text: str) -> dict[str, Any]: ...

    def end(self, index: int, completion: Completion) -> dict[str, Any]: ...

    def whole(self, index: int, completion: Completion) -> dict[str, Any]: ...


class ChatShape:
    """Choices of `/v1/chat/completions`. A stream opens with the role, which no later piece repeats."""

    def opening(self, index: int) -> dict[str, Any] | None:
        return self._delta(index, {"role": "assistant", "content": ""}, None)

    def piece(self, index: int, text: str) -> dict[str, Any]:
        return self._delta(index, {"content": text}, None)

    def end(self, index: int, completion: Completion) -> dict[str, Any]:
        return self._delta(index, {}, completion.finish)

    def whole(self, index: int, completion: Completion) -> dict[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": completion.text, "refusal": None},
            "logprobs": None,
            "finish_reason": completion.finish,
        }

    @staticmethod
    def _delta(index: int, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


class TextShape:
    """Choices of `/v1/completions`. `echoes` are the texts that precede each choice's answer (`echo`), or none."""

    def __init__(self, echoes: Sequence[str] = ()) -> None:
        self._echoes = echoes

    def opening(self, index: int) -> dict[str, Any] | None:
        return self.piece(index, self._echo(index)) if self._echo(index) else None

    def piece(self, index: int, text: str) -> dict[str, Any]:
        return self._choice(index, text, None)

    def end(self, index: int, completion: Completion) -> dict[str, Any]:
        return self._choice(index, "", completion.finish)

    def whole(self, index: int, completion: Completion) -> dict[str, Any]:
        return self._choice(index, self._echo(index) + completion.text, completion.finish)

    def _echo(self, index: int) -> str:
        return self._echoes[index] if self._echoes else ""

    @staticmethod
    def _choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
