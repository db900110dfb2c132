"""The objects of an OpenAI answer around its choices: envelope, usage, timings."""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Sequence
from typing import Any

from golem_host_chat.generation import Progress
from golem_host_chat.routes.totals import Totals

_ALPHABET = string.ascii_letters + string.digits


class Envelope:
    """The members that all objects of one answer share: `id`, `created` (seconds), `model`, `system_fingerprint`.

    `prefix` begins the id (`chatcmpl-`), `kind` is the object of a whole answer, `chunk_kind` that of a chunk.
    """

    def __init__(self, *, prefix: str, kind: str, chunk_kind: str, model: str, version: str) -> None:
        self.id = prefix + "".join(secrets.choice(_ALPHABET) for _ in range(32))
        self._kind = kind
        self._chunk_kind = chunk_kind
        self._shared = {
            "id": self.id,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"golem-host-{version}",
        }

    def whole(self, choices: Sequence[dict[str, Any]], **members: Any) -> dict[str, Any]:
        return {**self._shared, "object": self._kind, "choices": list(choices), **members}

    def chunk(self, choices: Sequence[dict[str, Any]], **members: Any) -> dict[str, Any]:
        return {**self._shared, "object": self._chunk_kind, "choices": list(choices), **members}


def usage(totals: Totals) -> dict[str, Any]:
    """OpenAI's usage object; `prompt_tokens` is the whole prompt, the reused part included."""
    return {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.drawn,
        "total_tokens": totals.prompt_tokens + totals.drawn,
        "prompt_tokens_details": {"cached_tokens": totals.cached},
    }


def timings(totals: Totals) -> dict[str, Any]:
    """llama-server's timings object. Every value is finite: a rate whose count or time is zero is 0."""
    read, read_ms, drawn, drawn_ms = totals.read, totals.read_ms, totals.drawn, totals.drawn_ms
    return {
        "cache_n": totals.cached,
        "prompt_n": read,
        "prompt_ms": read_ms,
        "prompt_per_token_ms": read_ms / read if read else 0.0,
        "prompt_per_second": 1e3 * read / read_ms if read_ms else 0.0,
        "predicted_n": drawn,
        "predicted_ms": drawn_ms,
        "predicted_per_token_ms": drawn_ms / drawn if drawn else 0.0,
        "predicted_per_second": 1e3 * drawn / drawn_ms if drawn_ms else 0.0,
    }


def prompt_progress(progress: Progress) -> dict[str, Any]:
    """llama-server's object: `total` tokens of a prompt, `cache` of them from before, `processed` those included."""
    return {
        "total": progress.total,
        "cache": progress.cached,
        "processed": progress.processed,
        "time_ms": round(progress.milliseconds),
    }
