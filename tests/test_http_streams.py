"""Streams and waiting without a server: order of errors and status line, pings, clean-up whatever happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from litestar import Request

from golem_host.errors import BadRequest, InternalError, Overloaded
from golem_host.http.disconnect import ClientLeft, result_or_disconnect
from golem_host.http.requestlog import log_note
from golem_host.http.streams import SSE_DONE, stream_reply
from golem_host.lanes.job import End, Job, JobCancelled


class Client:
    """The other side of one request: what it received, and the moment it leaves."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.sent: list[Any] = []
        self.on_body: Callable[[bytes], None] = lambda body: None
        scope: Any = {"type": "http", "method": "POST", "path": "/", "headers": [], "state": {}}
        self.request: Request[Any, Any, Any] = Request(scope, self.receive, self.send)

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.on_body(message["body"])
        await asyncio.sleep(0)

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]

    async def take(self, response: Any) -> None:
        application = response.to_asgi_response(app=None, request=self.request)
        await application(self.request.scope, self.receive, self.send)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        before = asyncio.all_tasks()
        async with asyncio.timeout(20):
            await test()
        assert asyncio.all_tasks() == before, "a task was left behind"

    asyncio.run(bounded())


async def events_of(job: Job[None], closed: list[bool]) -> AsyncIterator[dict[str, Any]]:
    try:
        async for event in job.events():
            yield {"event": event}
    finally:
        await asyncio.sleep(0)
        closed.append(True)


async def start(client: Client, job: Job[None], closed: list[bool], **options: Any) -> Any:
    defaults = {"framing": "sse", "dialect": "openai", "done": SSE_DONE}
    return await stream_reply(client.request, job, events_of(job, closed), **{**defaults, **options})


def test_every_event_is_one_message_and_the_end_is_marked() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        for n in range(3):
            job.emit(n)
        job.finish()
        await client.take(await start(client, job, closed))
        assert client.sent[0]["status"] == 200
        assert (b"content-type", b"text/event-stream") in client.sent[0]["headers"]
        assert client.bodies == [b'data: {"event":0}\n\n', b'data: {"event":1}\n\n', b'data: {"event":2}\n\n', SSE_DONE]
        assert [message.get("more_body") for message in client.sent[1:]] == [True, True, True, False]
        assert closed == [True] and job.end is End.DONE

    run(test)


def test_lines_are_never_blank_and_line_separators_are_escaped() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        text = "a\u2028b\u2029c\x85d\ne\r"
        job.emit(text)
        job.emit("")
        job.finish()
        await client.take(await start(client, job, closed, framing="ndjson", dialect="ollama", done=None))
        joined = b"".join(client.bodies).decode()
        assert joined.isascii() and joined.endswith("}\n")
        assert [json.loads(line) for line in joined.splitlines()] == [{"event": text}, {"event": ""}]

    run(test)


def test_named_events_and_a_named_error() -> None:
    async def test() -> None:
        async def chunks() -> AsyncIterator[dict[str, Any]]:
            yield {"type": "begun", "text": "a\u2028b"}
            raise InternalError("broken")

        client = Client()
        response = await stream_reply(
            client.request, Job(None), chunks(), framing="events", dialect="anthropic", done=None
        )
        await client.take(response)
        assert client.bodies == [
            b'event: begun\ndata: {"type":"begun","text":"a\\u2028b"}\n\n',
            b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"broken"}}\n\n',
        ]

    run(test)


def test_bytes_go_out_as_they_are() -> None:
    async def test() -> None:
        client = Client()

        async def chunks() -> AsyncIterator[bytes]:
            yield b"event: x\ndata: {}\n\n"

        job = Job(None)
        await client.take(await stream_reply(client.request, job, chunks(), framing="sse", dialect="openai", done=None))
        assert b"".join(client.bodies) == b"event: x\ndata: {}\n\n"
        assert job.end is End.CANCELLED, "an end of the chunks ends the job too"

    run(test)


@pytest.mark.parametrize("error", [BadRequest("too long"), Overloaded("busy"), ValueError("bug")])
def test_an_error_before_the_first_chunk_is_raised_before_any_status_line(error: Exception) -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        job.fail(error)
        with pytest.raises(type(error)):
            await start(client, job, closed)
        assert client.sent == [] and closed == [True]

    run(test)


def test_an_error_in_the_middle_is_the_only_content_of_the_last_event() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        job.emit(0)
        response = await start(client, job, closed)
        job.fail(InternalError("the pass failed"))
        await client.take(response)
        assert client.bodies == [
            b'data: {"event":0}\n\n',
            b'data: {"error":{"message":"the pass failed","type":"server_error","param":null,"code":null}}\n\n',
        ]
        assert client.sent[-1]["more_body"] is False and closed == [True]
        assert log_note(client.request).error == "the pass failed"

    run(test)


def test_a_chunk_that_cannot_be_written_is_an_error_in_its_place() -> None:
    async def test() -> None:
        client, job = Client(), Job(None)

        async def chunks() -> AsyncIterator[dict[str, Any]]:
            yield {"x": 1}
            yield {"x": float("nan")}

        response = await stream_reply(client.request, job, chunks(), framing="ndjson", dialect="ollama", done=None)
        await client.take(response)
        assert client.bodies[0] == b'{"x":1}\n' and list(json.loads(client.bodies[1])) == ["error"]
        assert job.cancelled

    run(test)


def test_a_silent_event_stream_begins_and_pings() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        response = await start(client, job, closed, ping_seconds=0.01)
        pings = 0

        def on_body(body: bytes) -> None:
            nonlocal pings
            pings += body == b": ping\n\n"
            if pings == 2:
                job.emit(0)
                job.finish()

        client.on_body = on_body
        await client.take(response)
        assert client.bodies[:2] == [b": ping\n\n"] * 2
        assert client.bodies[-2:] == [b'data: {"event":0}\n\n', SSE_DONE]

    run(test)


@pytest.mark.parametrize(
    "options", [{"framing": "ndjson", "dialect": "ollama", "done": None, "ping_seconds": 0.001}, {"ping_seconds": None}]
)
def test_lines_have_no_pings_and_events_none_where_they_are_off(options: dict[str, Any]) -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        starting = asyncio.create_task(start(client, job, closed, **options))
        await asyncio.sleep(0.05)
        assert not starting.done()
        job.emit(0)
        job.finish()
        await client.take(await starting)
        assert b"".join(client.bodies).removeprefix(b"data: ").startswith(b'{"event":0}\n')

    run(test)


def test_leaving_before_the_first_chunk_cancels() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        asyncio.get_running_loop().call_later(0.01, client.gone.set)
        with pytest.raises(ClientLeft):
            await start(client, job, closed)
        assert job.cancelled and closed == [True] and client.sent == []
        assert log_note(client.request).client_left

    run(test)


def test_leaving_in_the_middle_cancels_and_closes_the_chunks() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        job.emit(0)
        client.on_body = lambda body: client.gone.set()
        await client.take(await start(client, job, closed))
        assert client.bodies == [b'data: {"event":0}\n\n']
        assert job.cancelled and closed == [True] and log_note(client.request).client_left

    run(test)


def test_a_cancelled_request_cancels_and_closes_too() -> None:
    async def test() -> None:
        client, job, closed = Client(), Job(None), []
        job.emit(0)
        taking = asyncio.create_task(client.take(await start(client, job, closed)))
        await asyncio.sleep(0.01)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        assert job.cancelled and closed == [True]

    run(test)


def test_a_slow_reader_slows_the_chunks_down() -> None:
    async def test() -> None:
        client = Client()
        made = 0
        ahead: list[int] = []

        async def chunks() -> AsyncIterator[dict[str, Any]]:
            nonlocal made
            for made in range(1, 51):
                yield {"n": made}

        client.on_body = lambda body: ahead.append(made - len(client.bodies))
        response = await stream_reply(
            client.request, Job(None), chunks(), framing="ndjson", dialect="ollama", done=None
        )
        await client.take(response)
        assert len(client.bodies) == 51 and max(ahead) <= 2

    run(test)


# Answers in one piece


def test_results_come_in_the_order_of_the_jobs() -> None:
    async def test() -> None:
        client, jobs = Client(), [Job(None), Job(None)]
        jobs[1].finish("second")
        asyncio.get_running_loop().call_later(0.01, jobs[0].finish, "first")
        assert await result_or_disconnect(client.request, jobs) == ["first", "second"]

    run(test)


def test_leaving_cancels_all_jobs() -> None:
    async def test() -> None:
        client, jobs = Client(), [Job(None), Job(None), Job(None)]
        jobs[1].finish()
        asyncio.get_running_loop().call_later(0.01, client.gone.set)
        with pytest.raises(ClientLeft):
            await result_or_disconnect(client.request, jobs)
        assert [job.end for job in jobs] == [End.CANCELLED, End.DONE, End.CANCELLED]
        assert log_note(client.request).client_left

    run(test)


def test_a_job_that_fails_cancels_the_others() -> None:
    async def test() -> None:
        client, jobs = Client(), [Job(None), Job(None)]
        asyncio.get_running_loop().call_later(0.01, jobs[1].fail, BadRequest("no"))
        with pytest.raises(BadRequest):
            await result_or_disconnect(client.request, jobs)
        assert jobs[0].cancelled

    run(test)


def test_a_job_cancelled_by_the_host_is_not_a_client_that_left() -> None:
    async def test() -> None:
        client, job = Client(), Job(None)
        job.cancel()
        with pytest.raises(JobCancelled):
            await result_or_disconnect(client.request, [job])
        assert not log_note(client.request).client_left

    run(test)


def test_a_cancelled_request_cancels_its_jobs() -> None:
    async def test() -> None:
        client, job = Client(), Job(None)
        waiting = asyncio.create_task(result_or_disconnect(client.request, [job]))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert job.cancelled

    run(test)
