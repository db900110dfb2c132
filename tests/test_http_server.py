"""On the real server and real sockets: clients that leave, malformed requests, bodies too large, exact framing."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCRIPT = Path(__file__).with_name("http_server.py")
PATIENCE = 20.0
"""Seconds before a test gives up on something that should happen at once."""


class Server:
    """The server process; `log` collects its standard error."""

    def __init__(self, folder: Path, **flags: str) -> None:
        settings = {"addr": "127.0.0.1:0", "model-folder": str(folder), **flags}
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *(f"{name}={value}" for name, value in settings.items())],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.log: list[str] = []
        assert self.process.stdout is not None and self.process.stderr is not None
        self._stderr = threading.Thread(target=lambda stream: self.log.extend(stream), args=(self.process.stderr,))
        self._stderr.start()
        match = None
        while match is None:
            line = self.process.stdout.readline()
            assert line, "the server ended:\n" + "".join(self.log)
            match = re.search(r"Ready: http://127\.0\.0\.1:(\d+)", line)
        self.port = int(match[1])
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, trust_env=False)

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        self._stderr.join()
        assert self.process.returncode == 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def send(self, request: bytes) -> bytes:
        """The whole answer to raw bytes, until the server closes or has sent what Content-Length says."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_answer(connection)

    def post(self, path: str, body: dict[str, Any]) -> socket.socket:
        """A connection that has sent a request and reads nothing."""
        content = json.dumps(body).encode()
        connection = self.connect()
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        )
        return connection

    def jobs(self) -> list[dict[str, Any]]:
        return self.client.get("/v1/jobs").json()

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, "it never happened; log:\n" + "".join(self.log)
            time.sleep(0.01)

    def logged(self, *words: str) -> bool:
        return any(all(word in line for word in words) for line in list(self.log))


def read_answer(connection: socket.socket) -> bytes:
    answer = b""
    while True:
        head, separator, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if separator and length and len(body) >= int(length[1]):
            return answer
        piece = connection.recv(65536)
        if not piece:
            return answer
        answer += piece


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("models"), **{"max-body": "1MiB"})
    yield server
    server.close()


def status_of(answer: bytes) -> int:
    match = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    assert match, answer
    return int(match[1])


def last_job(server: Server) -> dict[str, Any]:
    return server.jobs()[-1]


# Clients that leave


def test_leaving_while_waiting_for_a_whole_answer(server: Server) -> None:
    known = len(server.jobs())
    connection = server.post("/v1/whole", {})
    server.until(lambda: len(server.jobs()) > known and last_job(server)["started"])
    connection.close()
    server.until(lambda: last_job(server)["end"] == "cancelled")
    server.until(lambda: server.logged("POST /v1/whole 499 0 bytes", "client left"))
    assert server.client.post("/v1/whole", json={"events": 3}).json() == {"result": 3}


@pytest.mark.parametrize("path", ["/v1/stream", "/api/stream"])
def test_leaving_in_the_middle_of_a_stream(server: Server, path: str) -> None:
    connection = server.post(path, {})
    while b'"event":3' not in connection.recv(65536):
        pass
    connection.close()
    server.until(lambda: last_job(server)["end"] == "cancelled")
    server.until(lambda: server.logged(f"POST {path} 200", "client left"))
    assert server.client.post("/v1/whole", json={"events": 3}).json() == {"result": 3}


def test_leaving_a_stream_that_is_silent(server: Server) -> None:
    known = len(server.jobs())
    connection = server.post("/v1/stream", {"silent": True})
    server.until(lambda: len(server.jobs()) > known and last_job(server)["started"])
    connection.close()
    server.until(lambda: last_job(server)["end"] == "cancelled")


@pytest.mark.parametrize("path", ["/v1/whole", "/v1/stream"])
def test_leaving_while_queued(server: Server, path: str) -> None:
    known = len(server.jobs())
    running = server.post("/v1/whole", {})  # the model has one seat
    server.until(lambda: len(server.jobs()) == known + 1 and server.jobs()[known]["started"])
    queued = server.post(path, {})
    server.until(lambda: len(server.jobs()) == known + 2)
    queued.close()
    server.until(lambda: server.jobs()[known + 1]["end"] == "cancelled")
    assert not server.jobs()[known + 1]["started"]
    assert server.jobs()[known]["end"] is None
    running.close()
    server.until(lambda: server.jobs()[known]["end"] == "cancelled")


def test_half_a_body_is_not_taken_for_a_whole_one(server: Server) -> None:
    known = len(server.jobs())
    with server.connect() as connection:
        connection.sendall(b'POST /v1/whole HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"events": 1}')
        connection.shutdown(socket.SHUT_WR)
        connection.recv(65536)
    server.until(lambda: server.logged("POST /v1/whole 400", "cut short"))
    assert len(server.jobs()) == known


# The wire


def test_events_are_framed_exactly(server: Server) -> None:
    answer = server.client.post("/v1/stream", json={"events": 3})
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text == 'data: {"event":0}\n\ndata: {"event":1}\n\ndata: {"event":2}\n\ndata: [DONE]\n\n'


def test_lines_are_framed_exactly(server: Server) -> None:
    answer = server.client.post("/api/stream", json={"events": 2})
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text == '{"event":0}\n{"event":1}\n'


def test_each_event_is_flushed(server: Server) -> None:
    connection = server.post("/v1/stream", {})
    chunk = re.compile(rb"[0-9a-f]+\r\n(data: [^\n]*\n\n)\r\n")
    received = b""
    while len(chunk.findall(received)) < 3:
        received += connection.recv(65536)
    connection.close()
    assert [json.loads(event[6:]) for event in chunk.findall(received)[:3]] == [{"event": n} for n in range(3)]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_the_cap_is_refused_and_the_client_can_read_why(server: Server, announced: bool) -> None:
    body = b'{"a": "' + b"x" * (8 * 2**20) + b'"}'
    answer = server.client.post("/v1/echo", content=body if announced else iter([body]))
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "1 MiB" in answer.json()["error"]["message"]


def test_a_chunked_body_is_taken(server: Server) -> None:
    assert server.client.post("/v1/echo", content=iter([b'{"a"', b": 1}"])).json() == {"a": 1}


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /health HTTP/1.0\r\n\r\n", 200),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403),
        (b"GET /health HTTP/1.1\r\nHost: a b\r\n\r\n", 403),
        (b"GET http://rebound.example/health HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403),
        (b"FOO /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"FOO /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /%ff%00%0d%0aX:%20y HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET //v1//models/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /v1/models/fake HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /v1/models/fake%3Alatest HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /v1/models/org%2Fother HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 400),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Encoding: zstd\r\n\r\n{}", 415),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n\x00{}", 400),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 150 + b"\r\n", 431),
    ],
)
def test_malformed_requests_are_answered_and_harm_nobody(server: Server, request_bytes: bytes, status: int) -> None:
    assert status_of(server.send(request_bytes)) == status
    assert server.client.get("/health").json() == {"status": "ok"}


def test_head_has_no_body(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert status_of(answer) == 200
    assert answer.endswith(b"\r\n\r\n")


def test_a_path_cannot_forge_a_log_line(server: Server) -> None:
    server.send(b"GET /x%0aGET%20/forged%20200%1b%5b31m HTTP/1.1\r\nHost: localhost\r\n\r\n")
    server.until(lambda: server.logged("GET /x%0AGET%20/forged%20200%1B%5B31m 404"))
    assert not any(line.startswith("GET") or "\x1b" in line for line in server.log)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ud0a 1e').map(str.encode))
def test_any_body_is_answered(server: Server, body: bytes) -> None:
    assert server.client.post("/v1/echo", content=body).status_code in (200, 400)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200) | st.from_regex(rb"(GET|POST|X) /[^\s]{0,20} HTTP/1\.[01]\r\n(Host: [^\r]*\r\n){0,2}\r\n")
)
def test_any_bytes_on_the_wire_leave_the_server_serving(server: Server, request_bytes: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert server.client.get("/health").status_code == 200


def test_a_connection_serves_on_after_refusals(server: Server) -> None:
    requests = [
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n{", 400),
        (b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000, 413),
        (b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000, 404),
        (b"POST /v1/echo HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}", 403),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 200),
    ]
    with server.connect() as connection:
        for request, status in requests:
            connection.sendall(request)
            assert status_of(read_answer(connection)) == status


def test_ten_clients_that_leave_at_once_leave_nothing_behind(server: Server) -> None:
    known = len(server.jobs())
    connections = [server.post("/v1/stream" if n % 2 else "/v1/whole", {}) for n in range(10)]
    server.until(lambda: len(server.jobs()) == known + 10)
    for connection in connections:
        connection.close()
    server.until(lambda: all(job["end"] == "cancelled" for job in server.jobs()[known:]))
    assert server.client.post("/v1/whole", json={"events": 2}).json() == {"result": 2}
