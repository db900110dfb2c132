"""A client of an ASGI application that can leave at any moment."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Caller:
    """One request in progress. `first` is set with the first bytes of a body, `task` ends with the answer."""

    def __init__(self, app: Any, request: httpx.Request) -> None:
        self.first = asyncio.Event()
        self._left = asyncio.Event()
        self._sent: list[dict[str, Any]] = []
        self._messages = [{"type": "http.request", "body": request.read(), "more_body": False}]
        url = request.url
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 80),
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    @property
    def done(self) -> bool:
        return self.task.done()

    async def _receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop(0)
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self._sent.append(message)
        if message["type"] == "http.response.body" and message.get("body"):
            self.first.set()

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()

    async def stop(self) -> None:
        """End the request whatever it does."""
        self._left.set()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def response(self) -> httpx.Response:
        """The answer, once it is complete. Raises what the application raised."""
        self.task.result()
        start = next(message for message in self._sent if message["type"] == "http.response.start")
        body = b"".join(each.get("body", b"") for each in self._sent if each["type"] == "http.response.body")
        return httpx.Response(start["status"], headers=start["headers"], content=body)
