"""What the routes share: tokenizing beside the event loop, waiting for the lane, writing long answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from litestar import Request, Response

from golem_host.api import Job
from golem_host.errors import BadRequest
from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host.http.writing import json_bytes
from golem_host_embed.routes.vectors import Rows, size_of
from golem_host_embed.tokens import Tokens

if TYPE_CHECKING:
    from golem_host_embed.runtime import EmbedRuntime

INLINE_NUMBERS = 1 << 13
"""Up to this many numbers are written while the event loop waits (a few milliseconds)."""


async def computed(
    request: Request[Any, Any, Any], runtime: EmbedRuntime, prepare: Callable[[], list[Tokens]]
) -> tuple[Rows, int]:
    """The rows (texts, width) of the texts that `prepare` tokenizes, and how many tokens they had.

    Raises what `prepare` raises, `BadRequest` for a text without a token, what the lane fails the job with, and
    `ClientLeft`.
    """

    def job_of_all() -> tuple[Job[Any], list[int]]:
        texts = prepare()
        lengths = [len(text) for text in texts]
        if not all(lengths):
            raise BadRequest(f"text {lengths.index(0)} is empty: the model's tokenizer makes no tokens of it")
        return runtime.job(texts), lengths

    with runtime.lane.arriving():
        job, lengths = await off_loop(request, job_of_all)
    count = sum(lengths)
    note = log_note(request)
    note.prompt_tokens = count
    note.extra["texts"] = len(lengths)
    runtime.lane.submit(job)
    [rows] = await result_or_disconnect(request, [job])
    if job.started is not None and job.ended is not None:
        note.waited_ms = (job.started - job.created) * 1e3
        note.prompt_ms = (job.ended - job.started) * 1e3
    return rows, count


async def written(rows: Rows, write: Callable[[], bytes]) -> Response[bytes]:
    """The answer that `write` makes of rows; a long one on a thread of its own."""
    inline = size_of(rows) <= INLINE_NUMBERS
    content = write() if inline else await asyncio.to_thread(write)
    return Response(content, media_type="application/json")


def with_array(members: Mapping[str, Any], name: str, items: Sequence[bytes]) -> bytes:
    """A JSON object of `members` and, last, the array `name` of items that are JSON already.

    Items are written one by one, so that other threads get their turn in between.
    """
    return json_bytes(members)[:-1] + b"," + json_bytes(name) + b":[" + b",".join(items) + b"]}"
