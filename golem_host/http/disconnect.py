"""Noticing that the client left, and cancelling what was computed for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from litestar import Request

from golem_host.http.requestlog import log_note
from golem_host.lanes.job import Job


class ClientLeft(Exception):
    """The client closed its connection before the answer was complete; nobody reads what would be sent now."""


async def client_left(request: Request[Any, Any, Any]) -> None:
    """Return when the client has left. Call it only after the body was read: what is left of it is thrown away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def result_or_disconnect(request: Request[Any, Any, Any], jobs: Iterable[Job[Any]]) -> list[Any]:
    """The results of `jobs`, in order; every route that answers in one piece waits with this.

    Call it after the body was read and the jobs were submitted. When the client leaves, when one job fails, or when the
    request is cancelled, the jobs that have not ended are cancelled. Raises the first job's error, or `ClientLeft`,
    which the application turns into the end of the request.
    """
    jobs = list(jobs)
    left = asyncio.create_task(client_left(request))
    waiting = [asyncio.create_task(job.result()) for job in jobs]
    results = asyncio.gather(*waiting)
    try:
        await asyncio.wait({left, results}, return_when=asyncio.FIRST_COMPLETED)
        if results.done():
            return results.result()
        log_note(request).client_left = True
        raise ClientLeft
    finally:
        for job in jobs:
            job.cancel()
        left.cancel()
        results.cancel()
        # The first failure ends `results`, not the others' waiting.
        await asyncio.gather(left, results, *waiting, return_exceptions=True)
