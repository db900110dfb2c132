"""A small model hub on this machine that can break off, lie, refuse and wait."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """One repository, `owner/repo`. `break_after` closes each connection after so many bytes of a file; with `hold` it
    waits there for `go_on`, and sends the rest.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.announced: dict[str, str] = {}
        self.break_after: int | None = None
        self.ranges = True
        self.hold = False
        self.go_on = threading.Event()
        self.token: str | None = None
        self.requests: list[tuple[str, str | None]] = []

    def listing(self) -> dict[str, Any]:
        siblings = [
            {"rfilename": name, "lfs": {"size": len(content), "sha256": self.announced.get(name, sha256(content))}}
            for name, content in self.files.items()
        ]
        return {"sha": COMMIT, "siblings": [{"rfilename": "README.md"}, *siblings]}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve one; HF_ENDPOINT names it meanwhile."""
    state = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append((self.path, self.headers.get("Range")))
            if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
                self.send_error(401)
            elif self.path == "/api/models/owner/repo?blobs=true":
                self.reply(200, json.dumps(state.listing()).encode())
            elif self.path.startswith(f"/owner/repo/resolve/{COMMIT}/"):
                content = state.files[self.path.removeprefix(f"/owner/repo/resolve/{COMMIT}/")]
                start = self.headers.get("Range")
                if start and state.ranges:
                    self.reply(206, content[int(start.removeprefix("bytes=").rstrip("-")) :])
                else:
                    self.reply(200, content)
            else:
                self.send_error(404)

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            part = body if self.path.startswith("/api/") or state.break_after is None else body[: state.break_after]
            if state.hold and part is not body:
                self.wfile.write(part)
                self.wfile.flush()
                state.go_on.wait(30)
                self.wfile.write(body[len(part) :])
            else:
                self.wfile.write(part)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    try:
        yield state
    finally:
        state.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
