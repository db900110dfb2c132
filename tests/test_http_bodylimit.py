"""The body as it arrives: refused as soon as it is over the cap, cut short, or late; the rest is read and dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from golem_host.errors import BadRequest, PayloadTooLarge
from golem_host.http import bodylimit
from golem_host.http.bodylimit import BodyLimit


class Source:
    """A server's receive: the pieces, then `http.disconnect`, or a wait for ever."""

    def __init__(self, *pieces: bytes, complete: bool = True, waits: bool = False) -> None:
        self.messages: list[Any] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        if complete:
            self.messages[-1]["more_body"] = False
        self.waits = waits
        self.reads = 0

    async def __call__(self) -> Any:
        self.reads += 1
        await asyncio.sleep(0)
        if self.messages:
            return self.messages.pop(0)
        if self.waits:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}


async def read(limit: BodyLimit) -> bytes:
    body = b""
    while True:
        message: Any = await limit.receive()
        body += message["body"]
        if not message["more_body"]:
            return body


def run(make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(make())


def test_a_body_within_the_cap_arrives_whole_and_the_disconnect_after_it() -> None:
    async def go() -> tuple[bytes, Any]:
        limit = BodyLimit(Source(b"ab", b"cd"), limit=4, content_length=4)
        limit.check_announced()
        return await read(limit), await limit.receive()

    assert run(go) == (b"abcd", {"type": "http.disconnect"})


def test_an_announced_body_over_the_cap_is_refused_unread() -> None:
    source = Source(b"abcde")
    with pytest.raises(PayloadTooLarge):
        BodyLimit(source, limit=4, content_length=5).check_announced()
    assert source.reads == 0


def test_an_unannounced_body_is_refused_at_the_piece_that_goes_over() -> None:
    source = Source(*[b"ab"] * 100)
    with pytest.raises(PayloadTooLarge):
        run(lambda: read(BodyLimit(source, limit=4, content_length=None)))
    assert source.reads == 3


@pytest.mark.parametrize(
    ("source", "length"),
    [(Source(b"ab", complete=False), None), (Source(b"ab", complete=False), 4), (Source(b"ab"), 4)],
)
def test_a_body_that_is_cut_short_is_refused(source: Source, length: int | None) -> None:
    with pytest.raises(BadRequest, match="cut short"):
        run(lambda: read(BodyLimit(source, limit=10, content_length=length)))


def test_a_body_that_does_not_come_is_refused() -> None:
    source = Source(b"ab", complete=False, waits=True)
    with pytest.raises(BadRequest, match=r"did not arrive within 0\.01 s"):
        run(lambda: read(BodyLimit(source, limit=10, content_length=4, read_seconds=0.01)))


def test_the_rest_of_a_body_is_dropped() -> None:
    source = Source(*[b"ab"] * 100)
    run(lambda: BodyLimit(source, limit=4, content_length=None).discard())
    assert source.reads == 100


def test_a_body_without_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodylimit, "DISCARD_SECONDS", 0.05)

    async def endless() -> Any:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x", "more_body": True}

    run(lambda: BodyLimit(endless, limit=4, content_length=None).discard())
