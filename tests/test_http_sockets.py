"""WebSockets of plugins: the same policy as requests, and what becomes of a handler's errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from litestar import WebSocket

from golem_host.app import build_app
from golem_host.errors import NotFound
from golem_host.hookspecs import Route
from golem_host.host import Host
from golem_host.http.sockets import LONGEST_REASON
from golem_host.testing.fakes import FakeModel, FakePlugin, RoutesPlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of


async def echo(socket: WebSocket[Any, Any, Any], host: Any) -> None:
    if socket.query_params.get("refuse"):
        raise NotFound("no such thing")
    await socket.accept()
    while True:
        text = await socket.receive_text()
        if text == "fail":
            raise NotFound("gone " * 100)
        if text == "break":
            raise RuntimeError("a secret")
        await socket.send_text(text.upper())


ROUTES = [Route("WEBSOCKET", "/v1/echo", echo, "openai", "Echoes", key_names=("other-key", "key"))]
HOST = (b"host", b"localhost")


class Client:
    """An ASGI client of one socket: sends `texts`, then leaves; `sent` is what the application sent."""

    def __init__(self, path: str, headers: Sequence[tuple[bytes, bytes]], texts: Sequence[str], denial: bool) -> None:
        path, _, query = path.partition("?")
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*headers],
            "http_version": "1.1",
            "scheme": "ws",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}} if denial else {},
        }
        self._messages = [{"type": "websocket.connect"}, *({"type": "websocket.receive", "text": t} for t in texts)]
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        return self._messages.pop(0) if self._messages else {"type": "websocket.disconnect", "code": 1000}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def denied(self) -> tuple[int, Any]:
        """Status and body of an HTTP answer."""
        start, body = self.sent
        assert start["type"] == "websocket.http.response.start" and body["type"] == "websocket.http.response.body"
        return start["status"], json.loads(body["body"]) if body["body"][:1] == b"{" else body["body"].decode()


def talk(
    folder: Path,
    path: str = "/v1/echo",
    *texts: str,
    headers: Sequence[tuple[bytes, bytes]] = (HOST,),
    denial: bool = True,
    **flags: str,
) -> Client:
    """One socket's conversation under the given settings."""
    client = Client(path, headers, texts, denial)

    async def go() -> None:
        async with running(settings_of(folder, flags), plugin_set(echo=RoutesPlugin(ROUTES))) as (host, _):
            await build_app(host)(client.scope, client.receive, client.send)  # type: ignore[arg-type]
            assert host.requests.in_progress == 0

    asyncio.run(go())
    return client


def test_a_handler_talks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="golem_host.requests"):
        client = talk(tmp_path, "/v1/echo", "one", "two")
    assert [message["type"] for message in client.sent] == ["websocket.accept", "websocket.send", "websocket.send"]
    assert [message["text"] for message in client.sent[1:]] == ["ONE", "TWO"]
    assert "WEBSOCKET /v1/echo 101 6 bytes" in caplog.text and "client left" in caplog.text


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ([(b"host", b"evil.example")], 403, "evil.example"),
        ([(b"host", b"a"), (b"host", b"b")], 400, "more than one Host header"),
        ([], 400, "the Host header is missing"),
        ([HOST, (b"origin", b"https://evil.example")], 403, "pages of https://evil.example may not call this host"),
    ],
)
def test_policy(tmp_path: Path, headers: list[tuple[bytes, bytes]], status: int, reason: str) -> None:
    found, body = talk(tmp_path, headers=headers).denied
    assert found == status and reason in body["error"]["message"]


def test_an_origin_that_is_allowed_may_call(tmp_path: Path) -> None:
    client = talk(tmp_path, headers=[HOST, (b"origin", b"https://good.example")], cors_origin="https://good.example")
    assert client.sent == [{"type": "websocket.accept", "subprotocol": None, "headers": []}]


@pytest.mark.parametrize(
    ("path", "header", "accepted"),
    [
        ("/v1/echo", None, False),
        ("/v1/echo", (b"authorization", b"Bearer k"), True),
        ("/v1/echo", (b"x-api-key", b"k"), True),
        ("/v1/echo", (b"other-key", b"k"), True),
        ("/v1/echo", (b"other-key", b"wrong"), False),
        ("/v1/echo?key=k", None, True),
        ("/v1/echo?key=kk", None, False),
        ("/v1/echo?more=k", None, False),
    ],
)
def test_keys(tmp_path: Path, path: str, header: tuple[bytes, bytes] | None, accepted: bool) -> None:
    client = talk(tmp_path, path, headers=[HOST, *([header] if header else [])], api_key="k")
    if accepted:
        assert client.sent[0]["type"] == "websocket.accept"
    else:
        assert client.denied[0] == 401


def test_the_strict_listener_takes_none(tmp_path: Path) -> None:
    headers = [(b"host", b"127.0.0.1")]
    assert talk(tmp_path, headers=headers, listener="strict").denied == (400, "this listener takes no WebSockets")


def test_a_refusal_before_the_socket_is_an_answer(tmp_path: Path) -> None:
    status, body = talk(tmp_path, "/v1/echo?refuse=1").denied
    assert status == 404 and body["error"]["message"] == "no such thing"


def test_a_server_that_cannot_answer_closes(tmp_path: Path) -> None:
    for path in ("/v1/echo?refuse=1", "/v1/echo"):
        client = talk(tmp_path, path, headers=[HOST, (b"origin", b"https://evil.example")], denial=False)
        assert client.sent == [{"type": "websocket.close", "code": 1008, "reason": ""}]


def test_what_a_handler_raises_later_closes_the_socket(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = talk(tmp_path, "/v1/echo", "fail")
    assert client.sent[-1]["code"] == 1011
    assert client.sent[-1]["reason"].startswith("gone gone") and len(client.sent[-1]["reason"]) == LONGEST_REASON
    client = talk(tmp_path, "/v1/echo", "break")
    assert client.sent[-1]["code"] == 1011 and "secret" not in client.sent[-1]["reason"]
    assert "a secret" in caplog.text


def test_while_models_load_sockets_are_told(tmp_path: Path) -> None:
    client = Client("/v1/echo", [HOST], [], True)

    async def go() -> None:
        plugin = FakePlugin([FakeModel("m", path=Path(__file__))], ROUTES)
        app = build_app(Host(settings_of(tmp_path), plugin_set(fake=plugin)))
        await app(client.scope, client.receive, client.send)  # type: ignore[arg-type]

    asyncio.run(go())
    status, body = client.denied
    assert status == 503 and body["error"]["message"] == "Loading model"
