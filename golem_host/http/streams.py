"""Answers in pieces: server-sent events and newline-delimited JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Literal

from litestar import Request, Response
from litestar.types import Receive, Scope, Send

from golem_host.http.disconnect import ClientLeft, client_left
from golem_host.http.envelopes import error_body
from golem_host.http.requestlog import RequestNote, log_note
from golem_host.http.writing import json_bytes
from golem_host.lanes.job import Job

Framing = Literal["sse", "events", "ndjson"]
"""Event streams without and with names (each event's `type`), and lines of JSON."""

SSE_DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
PING_SECONDS = 15.0
"""Longest silence of an event stream: some HTTP clients drop a body that is silent for minutes (a long prompt)."""

_MEDIA = {"sse": "text/event-stream", "events": "text/event-stream", "ndjson": "application/x-ndjson"}


async def stream_reply(
    request: Request[Any, Any, Any],
    jobs: Job[Any] | Iterable[Job[Any]],
    chunks: AsyncIterator[dict[str, Any] | bytes],
    *,
    framing: Framing,
    dialect: str,
    done: bytes | None,
    ping_seconds: float | None = PING_SECONDS,
) -> Response[bytes]:
    """Answer with `chunks`, one event or line each: a dict becomes JSON, bytes go out as they are. `done` ends it.

    Waits for the first chunk before the status line, so that an error until then is raised here and becomes an ordinary
    HTTP error. A later error is the only content of its event, in `dialect`, and ends the stream without `done`. An
    event stream that is silent for `ping_seconds` gets a comment (with the status line first, if the first chunk takes
    that long; None: never); NDJSON has no comments, so its readers wait.

    However it ends (also when the client leaves), the jobs that have not ended are cancelled and `chunks` is closed,
    which must be an async generator: whatever has to outlive the handler (the use of a model) belongs inside it.
    Raises `ClientLeft` when the client leaves before the first chunk.
    """
    silence = None if framing == "ndjson" else ping_seconds
    stream = _Stream(request, jobs, chunks, framing, dialect, done, silence)
    try:
        await stream.wait_first()
    except BaseException:
        await stream.close()
        raise
    return _StreamResponse(stream)


class _StreamResponse(Response[bytes]):
    """Hands litestar the stream as the ASGI application that answers."""

    def __init__(self, stream: _Stream) -> None:
        super().__init__(b"")
        self._stream = stream

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> Any:
        return self._stream


class _Silence:
    """Nothing came for as long as a stream may be silent."""


class _End:
    """The chunks are over."""


class _Stream:
    """One streamed answer: a task that frames chunks, a task that watches the client, and the loop that sends.

    `chunks` runs in one task from beginning to end, so that what it enters it also leaves there. The queue holds one
    event: a client that reads slowly slows the generator down.
    """

    def __init__(
        self,
        request: Request[Any, Any, Any],
        jobs: Job[Any] | Iterable[Job[Any]],
        chunks: AsyncIterator[dict[str, Any] | bytes],
        framing: Framing,
        dialect: str,
        done: bytes | None,
        silence: float | None,
    ) -> None:
        self._jobs = [jobs] if isinstance(jobs, Job) else list(jobs)
        self._chunks = chunks
        self._framing: Framing = framing
        self._dialect = dialect
        self._done = done
        self._silence = silence
        self._note: RequestNote = log_note(request)
        self._queue: asyncio.Queue[bytes | Exception | _End] = asyncio.Queue(1)
        self._reader = asyncio.create_task(self._read())
        self._left = asyncio.create_task(client_left(request))
        self._first: bytes | Exception | _End | _Silence = _Silence()

    async def wait_first(self) -> None:
        """Wait for the first chunk, or for the silence that makes an event stream begin without one."""
        self._first = await self._next()
        if isinstance(self._first, Exception):
            raise self._first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", _MEDIA[self._framing].encode()),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),
        ]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send_events(send)
        except ClientLeft:
            pass
        finally:
            await self.close()

    async def _send_events(self, send: Send) -> None:
        item = self._first
        while not isinstance(item, _End):
            if isinstance(item, Exception):
                await self._send(send, self._error_event(item), more=False)
                return
            await self._send(send, PING if isinstance(item, _Silence) else item, more=True)
            item = await self._next()
        await self._send(send, self._done or b"", more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        # The server's send returns as if all were well once the client has left.
        self._check_client()
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _next(self) -> bytes | Exception | _End | _Silence:
        """The next event; `_Silence` when none came in time. Raises `ClientLeft`."""
        if not self._queue.empty():
            return self._queue.get_nowait()
        arrival = asyncio.create_task(self._queue.get())
        try:
            await asyncio.wait({arrival, self._left}, timeout=self._silence, return_when=asyncio.FIRST_COMPLETED)
            if arrival.done():
                return arrival.result()
        finally:
            arrival.cancel()
        self._check_client()
        return _Silence()

    def _check_client(self) -> None:
        if self._left.done():
            self._note.client_left = True
            raise ClientLeft

    async def _read(self) -> None:
        try:
            async with aclosing(self._chunks) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    await self._queue.put(_frame(chunk, self._framing))
        except Exception as error:
            await self._queue.put(error)
        else:
            await self._queue.put(_End())

    def _error_event(self, error: Exception) -> bytes:
        _, _, body = error_body(error, self._dialect)
        self._note.error = str(error)
        return _frame(body, self._framing)

    async def close(self) -> None:
        """Cancel what has not ended and close the chunks."""
        for job in self._jobs:
            job.cancel()
        self._reader.cancel()
        self._left.cancel()
        await asyncio.gather(self._reader, self._left, return_exceptions=True)


def _frame(chunk: dict[str, Any] | bytes, framing: Framing) -> bytes:
    if isinstance(chunk, bytes):
        return chunk
    if framing == "ndjson":
        return json_bytes(chunk) + b"\n"
    name = b"event: %b\n" % chunk["type"].encode() if framing == "events" else b""
    return b"%bdata: %b\n\n" % (name, json_bytes(chunk))
