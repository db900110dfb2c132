"""The programs under comparison, each in a process of its own: golem-host, llama.cpp's server, others.

Whoever is compared reads prompts and answers; token ids go in, so that all get the same work.

GOLEM_LLAMA_SERVER     a llama-server binary; without it llama.cpp's server is xllamacpp's, in
GOLEM_ORACLE_PYTHON    an interpreter with golem-host's `oracle` extra
GOLEM_IK_PYTHON        an interpreter with `ik-llama-cpp-python`
GOLEM_ST_PYTHON        an interpreter with `sentence-transformers`
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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

    def embed(self, texts: Sequence[str] | Sequence[list[int]]) -> float:
        """Seconds from the request to its last byte. Raises RuntimeError when a vector is missing."""
        started = time.perf_counter()
        reply = self.client.post("/v1/embeddings", json={"input": texts, "encoding_format": "base64"})
        seconds = time.perf_counter() - started
        reply.raise_for_status()
        if len(reply.json()["data"]) != len(texts):
            raise RuntimeError(f"asked for {len(texts)} vectors, got {len(reply.json()['data'])}")
        return seconds

    def decide(self, request: Any, positions: int) -> None:
        """Answers of a decision model. Raises RuntimeError when it did not read so many positions."""
        reply = self.client.post("/v1/systemone", json=request)
        reply.raise_for_status()
        if (count := reply.json()["usage"]["input_tokens"]) != positions:
            raise RuntimeError(f"read {count} positions, not {positions}")


@dataclass(frozen=True)
class Oracle:
    """A script of tests/oracle that computes in its own process; times are as it measured them, without HTTP."""

    process: subprocess.Popen[str]

    def read(self, tokens: list[int]) -> float:
        """No token is drawn."""
        return self._seconds({"tokens": tokens})

    def embed(self, texts: Sequence[str]) -> float:
        return self._seconds(texts)

    def _seconds(self, request: Any) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline() or '{"error": "it ended"}')
        if "error" in reply:
            raise RuntimeError(f"{self.process.args}: {reply['error']}")
        return reply["seconds"]


@contextmanager
def golem_host(model: Path, size: Size) -> Iterator[Server]:
    flags = ["--parallel", str(size.slots), "--context", str(size.context), "--threads", str(size.threads)]
    flags += ["--cache-ram", "0"]  # conversations never come back; copies of them would only be counted as memory
    with _golem_host(model, ["--enable", "chat", "--chat-model", str(model), *flags]) as server:
        yield server


@contextmanager
def golem_host_embed(model: Path, size: Size) -> Iterator[Server]:
    flags = ["--enable", "embed", "--embed-model", str(model), "--threads", str(size.threads)]
    with _golem_host(model, flags) as server:
        yield server


@contextmanager
def golem_host_laya(model: Path, size: Size) -> Iterator[Server]:
    with _golem_host(model, ["--enable", "laya", "--laya-model", str(model), "--threads", str(size.threads)]) as server:
        yield server


@contextmanager
def laya_server(model: Path, size: Size) -> Iterator[Server]:
    """laya's own server over one checkpoint, without its routing."""
    request = json.dumps({"model": str(model), "threads": size.threads})
    command = [interpreter("GOLEM_ORACLE_PYTHON"), str(ORACLES / "laya_http.py"), request]
    with _started(command) as process, _ready(model, process, None) as server:
        yield server


@contextmanager
def _golem_host(model: Path, flags: list[str]) -> Iterator[Server]:
    command = [sys.executable, "-P", "-m", "golem_host", *flags, "--addr", "127.0.0.1:0"]
    with _started(command) as process, _ready(model, process, None) as server:
        yield server


@contextmanager
def llama_server(model: Path, size: Size, *, embeddings: int = 0) -> Iterator[Server]:
    """llama.cpp's server with the same slots; with `embeddings` for vectors, in batches of so many tokens."""
    if binary := os.environ.get("GOLEM_LLAMA_SERVER"):
        port = _free_port()
        flags = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port), "--parallel", str(size.slots)]
        flags += ["--ctx-size", str(size.context), "--threads", str(size.threads), "--cache-ram", "0"]
        if embeddings:
            flags += ["--embeddings", "--batch-size", str(embeddings), "--ubatch-size", str(embeddings)]
        with _started([binary, *flags]) as process, _ready(model, process, f"http://127.0.0.1:{port}") as server:
            yield server
    else:
        request = {"model": str(model), "slots": size.slots, "context": size.context, "threads": size.threads}
        request["embeddings"] = embeddings
        command = [interpreter("GOLEM_ORACLE_PYTHON"), str(ORACLES / "llama_server.py"), json.dumps(request)]
        with _started(command) as process, _ready(model, process, None) as server:
            yield server


@contextmanager
def ik_llama(model: Path, size: Size) -> Iterator[Oracle]:
    """ik_llama.cpp with room for one conversation."""
    request = {"model": str(model), "threads": size.threads, "context": size.context // size.slots}
    with _started([interpreter("GOLEM_IK_PYTHON"), str(ORACLES / "ik_llama.py"), json.dumps(request)]) as process:
        yield Oracle(process)


@contextmanager
def sentence_transformers(folder: Path, size: Size) -> Iterator[Oracle]:
    """sentence-transformers' `encode`."""
    script, request = ORACLES / "sentence_transformer.py", {"model": str(folder), "threads": size.threads}
    with _started([interpreter("GOLEM_ST_PYTHON"), str(script), json.dumps(request)]) as process:
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
