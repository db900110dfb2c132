"""Health: whether every model can answer, asked of its lane."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.hookspecs import Route
from golem_host.http.writing import json_response

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.registry import Resident

ALIVE_SECONDS = 10.0
"""How long a device may take to come round to a no-op; a pass takes a tenth of a second, a slow first one a few."""


class Health:
    """Answers the health routes. Requests that come while the lanes are being asked share the answer."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[dict[str, str]] | None = None

    async def answer(self, request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
        """200 `{"status": "ok"}`, or 503 with what is wrong: `loading`, `failed` or `stopping`."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(state(host))
        # The task outlives a client that leaves: others wait for it.
        body = await asyncio.shield(self._asking)
        if body["status"] == "ok":
            return json_response(body)
        return json_response(body, status=503, headers={"Retry-After": "1"})


async def state(host: Host) -> dict[str, str]:
    """The body of the health routes: `status`, and for anything but `ok` the `model` at fault and the `reason`.

    A model that its keep-alive took out of memory is healthy: the next request loads it. One that a request added
    counts only while it is in memory: that it cannot be loaded is for whoever asks for it.
    """
    if host.stopping:
        return {"status": "stopping", "reason": "the host is stopping"}
    registry = host.registry
    residents = [each for each in registry.all_residents() if each.runtime or not registry.is_added(each.model)]
    answers = await asyncio.gather(*(_resident_state(host, resident) for resident in residents))
    for status in ("failed", "loading"):
        for answer in answers:
            if answer is not None and answer["status"] == status:
                return answer
    if host.started is None:
        return {"status": "loading", "reason": "the host is starting"}
    return {"status": "ok"}


async def _resident_state(host: Host, resident: Resident) -> dict[str, str] | None:
    """What is wrong with one model, or None."""
    name, runtime = resident.model.name, resident.runtime
    if resident.loading:
        return {"status": "loading", "model": name, "reason": "the model is being loaded"}
    if runtime is None:
        if resident.error is None:
            return None
        return {"status": "failed", "model": name, "reason": f"the last load failed: {resident.error}"}
    device = host.devices[resident.model.device]
    alive = await asyncio.to_thread(device.alive, runtime.lane, ALIVE_SECONDS)
    if alive or resident.runtime is not runtime:
        return None
    failure = runtime.lane.failed
    reason = f"the lane failed: {failure}" if failure else f"the device did not answer within {ALIVE_SECONDS:g} s"
    return {"status": "failed", "model": name, "reason": reason}


def routes() -> tuple[Route, ...]:
    """The health routes; public, so that probes need no key."""
    health = Health()
    return tuple(
        Route(
            "GET",
            path,
            health.answer,
            dialect="llama",
            summary="Whether every model can answer",
            public=True,
            head=True,
        )
        for path in ("/health", "/v1/health")
    )
