"""llama-server's `POST /v1/chat/completions/control`: a word to an answer that is being streamed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from litestar import Request

from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host_chat.thought_budget import ThoughtEnd

if TYPE_CHECKING:
    from golem_host.host import Host

_running: dict[str, ThoughtEnd | None] = {}
"""By the ids of answers, which no two have; None: its thoughts cannot be ended."""


@contextmanager
def running(id: str, end: ThoughtEnd | None) -> Iterator[None]:
    """While the answer `id` is streamed."""
    _running[id] = end
    try:
        yield
    finally:
        del _running[id]


async def control(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """End the thought of a streamed answer, which was asked for with `reasoning_control`."""
    fields = Fields(await read_json(request))
    id, action, model = fields.string("id", ""), fields.string("action", ""), fields.string("model")
    if not id:
        raise fields.fault("id", "missing completion id")
    if action != "reasoning_end":
        raise fields.fault("action", f"unknown control action {action!r}: it is 'reasoning_end'")
    if model:
        host.registry.resolve(model, "chat")
    if id not in _running:
        return {"success": False, "message": "no active completion for this id"}
    end = _running[id]
    if end is None:
        return {"success": False, "message": "reasoning control not enabled for this completion"}
    end.wanted = True
    return {"success": True}
