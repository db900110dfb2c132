"""What `/v1/chat/completions` and `/v1/completions` answer: whole objects, stream chunks, usage and timings."""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Sequence
from typing import Any

from golem_host_chat.generation import Completion

_ALPHABET = string.ascii_letters + string.digits


class Envelope:
    """The members all objects of one answer share: `id`, `created` (seconds), `model`, `system_fingerprint`.

    `prefix` begins the id (`chatcmpl-`, `cmpl-`), `kind` is the object of the whole answer, `chunk_kind` that of a chunk.
    """

    def __init__(self, *, prefix: str, kind: str, chunk_kind: str, model: str, version: str) -> None:
        self._kind = kind
        self._chunk_kind = chunk_kind
        self._shared = {
            "id": prefix + "".join(secrets.choice(_ALPHABET) for _ in range(32)),
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"golem-host-{version}",
        }

    def whole(self, choices: Sequence[dict[str, Any]], **members: Any) -> dict[str, Any]:
        return {**self._shared, "object": self._kind, "choices": list(choices), **members}

    def chunk(self, choices: Sequence[dict[str, Any]], **members: Any) -> dict[str, Any]:
        return {**self._shared, "object": self._chunk_kind, "choices": list(choices), **members}


def chat_envelope(model: str, version: str) -> Envelope:
    return Envelope(
        prefix="chatcmpl-", kind="chat.completion", chunk_kind="chat.completion.chunk", model=model, version=version
    )


def text_envelope(model: str, version: str) -> Envelope:
    return Envelope(
        prefix="cmpl-", kind="text_completion", chunk_kind="text_completion", model=model, version=version
    )


def chat_choice(index: int, completion: Completion) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": completion.text, "refusal": None},
        "logprobs": None,
        "finish_reason": completion.finish,
    }


def chat_delta(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


def text_choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def usage(completions: Sequence[Completion], copies: int) -> dict[str, Any]:
    """Tokens of an answer whose choices come in groups of `copies` drawn from one prompt, which counts once."""
    firsts = completions[::copies]
    prompt = sum(completion.prompt_tokens for completion in firsts)
    drawn = sum(completion.completion_tokens for completion in completions)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": drawn,
        "total_tokens": prompt + drawn,
        "prompt_tokens_details": {"cached_tokens": sum(completion.cached_tokens for completion in firsts)},
    }


def timings(completions: Sequence[Completion], copies: int) -> dict[str, Any]:
    """llama-server's timings object. Counts add up; choices are drawn side by side, so their longest time counts.

    Every value is finite: a rate whose count or time is zero is 0.
    """
    firsts = [completion.timings for completion in completions[::copies]]
    cached, read = sum(t.cache_n for t in firsts), sum(t.prompt_n for t in firsts)
    read_ms = max((t.prompt_ms for t in firsts), default=0.0)
    drawn = sum(completion.timings.predicted_n for completion in completions)
    drawn_ms = max((completion.timings.predicted_ms for completion in completions), default=0.0)
    return {
        "cache_n": cached,
        "prompt_n": read,
        "prompt_ms": read_ms,
        "prompt_per_token_ms": read_ms / read if read else 0.0,
        "prompt_per_second": 1e3 * read / read_ms if read_ms else 0.0,
        "predicted_n": drawn,
        "predicted_ms": drawn_ms,
        "predicted_per_token_ms": drawn_ms / drawn if drawn else 0.0,
        "predicted_per_second": 1e3 * drawn / drawn_ms if drawn_ms else 0.0,
    }
