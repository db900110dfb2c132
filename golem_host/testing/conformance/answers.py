"""What an answer says, without what may differ between two answers to one request."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import httpx

VOLATILE = frozenset(
    {
        "id", "created", "created_at", "completed_at", "timings",
        "total_duration", "load_duration", "prompt_eval_duration", "eval_duration",
    }
)  # fmt: skip
"""Members of JSON that two answers to one request may have otherwise: names, clocks, durations."""


def said(response: httpx.Response, volatile: Collection[str]) -> Any:
    """The body of a whole answer or of a stream, JSON without `volatile` members; bytes stay bytes."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    if kind == "application/json":
        return _without(response.json(), volatile)
    if kind == "application/x-ndjson":
        return [_without(json.loads(line), volatile) for line in response.text.splitlines() if line]
    if kind == "text/event-stream":
        return [_event(line, volatile) for line in response.text.split("\n") if line and not line.startswith(":")]
    return response.content


def _event(line: str, volatile: Collection[str]) -> Any:
    name, _, value = line.partition(": ")
    try:
        return name, _without(json.loads(value), volatile)
    except ValueError:
        return name, value


def _without(value: Any, volatile: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(inner, volatile) for name, inner in value.items() if name not in volatile}
    if isinstance(value, list):
        return [_without(each, volatile) for each in value]
    return value
