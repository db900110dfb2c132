"""The body of a request as it arrives: counted against the cap, and read to its end even when nobody wanted it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from litestar.types import HTTPReceiveMessage, Receive

from golem_host.errors import BadRequest, PayloadTooLarge
from golem_host.parsers import show_size

DISCARD_SECONDS = 5.0
"""How long the rest of a refused body is read and thrown away. A connection closed under a client that is still sending
shows it a reset instead of the refusal."""

_CUT = "the request body is cut short: the client stopped sending, or its chunks are malformed"


class BodyLimit:
    """Stands between the server and the application for one request; `receive` is the application's.

    Raises PayloadTooLarge once more than `limit` bytes arrive, and BadRequest when the body ends before
    `content_length` bytes came, when it is not chunked as HTTP wants it, or when `read_seconds` pass without a piece
    of it.
    """

    def __init__(
        self, receive: Receive, *, limit: int, content_length: int | None, read_seconds: float | None = None
    ) -> None:
        self._receive = receive
        self._limit = limit
        self._content_length = content_length
        self._read_seconds = read_seconds
        self._count = 0
        self.complete = False
        """Whether the body is over; `receive` then waits for the client to leave."""

    def check_announced(self) -> None:
        """Raise PayloadTooLarge when the announced length is over the limit: nothing needs to be read."""
        if self._content_length is not None and self._content_length > self._limit:
            raise self._too_large()

    async def receive(self) -> HTTPReceiveMessage:
        """The next message, counted."""
        if self.complete:
            return cast("HTTPReceiveMessage", await self._receive())
        message = await self._next()
        if message["type"] != "http.request":
            self.complete = True
            raise BadRequest(_CUT)
        self._count += len(message.get("body", b""))
        self.complete = not message.get("more_body", False)
        if self._count > self._limit:
            raise self._too_large()
        if self.complete and self._content_length is not None and self._count < self._content_length:
            raise BadRequest(_CUT)
        return message

    async def _next(self) -> HTTPReceiveMessage:
        try:
            async with asyncio.timeout(self._read_seconds):
                return cast("HTTPReceiveMessage", await self._receive())
        except TimeoutError:
            raise BadRequest(f"the request body did not arrive within {self._read_seconds:g} s") from None

    async def discard(self) -> None:
        """Read what is left of the body, for at most `DISCARD_SECONDS`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self.complete:
                    message = await self._receive()
                    self.complete = message["type"] != "http.request" or not message.get("more_body", False)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"request too large: the body is over {show_size(self._limit)}, the most taken here")
