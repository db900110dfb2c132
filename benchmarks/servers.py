"""The programs under comparison, each in a process of its own: golem-host, llama.cpp's server, ik_llama.cpp.

Whoever is compared reads prompts and answers; token ids go in, so that all get the same work.

GOLEM_LLAMA_SERVER     a llama-server binary; without it llama.cpp's server is xllamacpp's, in
GOLEM_ORACLE_PYTHON    an interpreter with golem-host's `oracle` extra
GOLEM_IK_PYTHON        an interpreter with `ik-llama-cpp-python`
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx

ORACLES = Path(__file__).parent.parent / "tests" / "oracle"


@dataclass(frozen=True)
class Size:
    """What every server is given: slots, positions of all slots together, compute threads."""

    slots: int = 4
    context: int = 4096
    threads: int = 2


class Reads(Protocol):
    """Reads a prompt that it has not seen."""

    def read(self, tokens: list[int]) -> float:
        """Seconds from the request to the first token."""
        ...


@dataclass(frozen=True)
class Server:
    """A server that answers for `model`: `ready_seconds` from its start to its first healthy answer."""

    model: Path
    process: subprocess.Popen[str]
    client: httpx.Client
    ready_seconds: float

    def read(self, tokens: list[int]) -> float:
        started = time.perf_counter()
        self.complete(tokens, 1)
        return time.perf_counter() - started

    def complete(self, prompt: list[int], count: int) -> None:
        """Draw exactly `count` tokens greedily. Raises RuntimeError when the server counted otherwise."""
        body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True}
        reply = self.client.post("/v1/completions", json=body)
        reply.raise_for_status()
        usage = reply.json()["usage"]
        if (usage["prompt_tokens"], usage["completion_tokens"]) != (len(prompt), count):
            raise RuntimeError(f"asked for {count} tokens after {len(prompt)}, got {usage}")


@dataclass(frozen=True)
class Oracle:
    """A script of tests/oracle that reads prompts in its own process."""

    process: subprocess.Popen[str]

    def read(self, tokens: list[int]) -> float:
        """As the script itself measured it: no HTTP, and no token drawn."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps({"tokens": tokens}), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline() or '{"error": "it ended"}')
        if "error" in reply:
            raise RuntimeError(f"ik_llama.cpp: {reply['error']}")
        return reply["seconds"]


@contextmanager
def golem_host(model: Path, size: Size) -> Iterator[Server]:
    flags = ["--parallel", str(size.slots), "--context", str(size.context), "--threads", str(size.threads)]
    flags += ["--enable", "chat", "--chat-model", str(model), "--addr", "127.0.0.1:0"]
    with (
        _started([sys.executable, "-P", "-m", "golem_host", *flags]) as process,
        _ready(model, process, None) as server,
    ):
        yield server


@contextmanager
def llama_server(model: Path, size: Size) -> Iterator[Server]:
    """llama.cpp's server with the same slots."""
    if binary := os.environ.get("GOLEM_LLAMA_SERVER"):
        port = _free_port()
        flags = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port), "--parallel", str(size.slots)]
        flags += ["--ctx-size", str(size.context), "--threads", str(size.threads)]
        with _started([binary, *flags]) as process, _ready(model, process, f"http://127.0.0.1:{port}") as server:
            yield server
    else:
        request = {"model": str(model), "slots": size.slots, "context": size.context, "threads": size.threads}
        command = [interpreter("GOLEM_ORACLE_PYTHON"), str(ORACLES / "llama_server.py"), json.dumps(request)]
        with _started(command) as process, _ready(model, process, None) as server:
            yield server


@contextmanager
def ik_llama(model: Path, size: Size) -> Iterator[Oracle]:
    """ik_llama.cpp with room for one conversation."""
    request = {"model": str(model), "threads": size.threads, "context": size.context // size.slots}
    with _started([interpreter("GOLEM_IK_PYTHON"), str(ORACLES / "ik_llama.py"), json.dumps(request)]) as process:
        yield Oracle(process)


def interpreter(variable: str) -> str:
    if python := os.environ.get(variable):
        return python
    sys.exit(f"set {variable} (see benchmarks/servers.py), or leave its rows out with --rows")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run it, and stop it at the end, also when this process is told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _ready(model: Path, process: subprocess.Popen[str], address: str | None) -> Iterator[Server]:
    """The server once it is healthy; without `address` it is the first one that the process prints."""
    started = time.monotonic()
    if address is None:
        assert process.stdout is not None
        address = next((line.strip().split()[-1] for line in process.stdout if "http://" in line), None)
    with httpx.Client(base_url=address or "", timeout=600) as client:
        while not _healthy(client):
            if process.poll() is not None or address is None:
                sys.exit(f"it did not start: {process.args}")
            time.sleep(0.01)
        yield Server(model, process, client, time.monotonic() - started)


def _healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False
