"""The two servers under comparison, each in a process of its own: golem-host and llama.cpp's (xllamacpp).

llama.cpp lives in another interpreter (extra `oracle`), named by GOLEM_ORACLE_PYTHON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

PEER_SCRIPT = Path(__file__).parent.parent / "tests" / "oracle" / "llama_server.py"


@dataclass(frozen=True)
class Server:
    """A server that answers: `ready_seconds` from its start to its first healthy answer."""

    name: str
    process: subprocess.Popen[str]
    client: httpx.Client
    ready_seconds: float

    def complete(self, prompt: str, max_tokens: int) -> int:
        """Draw greedily; how many tokens came."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        reply = self.client.post("/v1/completions", json=body)
        reply.raise_for_status()
        return reply.json()["usage"]["completion_tokens"]

    def resident_mib(self) -> float:
        """Memory the process holds, pages of the model file it touched included."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmRSS")


def host(model: Path, *, slots: int, context: int, threads: int) -> list[str]:
    """The command of this host; `context` positions of all slots together."""
    flags = ["--parallel", str(slots), "--context", str(context), "--threads", str(threads), "--addr", "127.0.0.1:0"]
    return [sys.executable, "-P", "-m", "golem_host", "--enable", "chat", "--chat-model", str(model), *flags]


def peer(model: Path, *, slots: int, context: int, threads: int) -> list[str]:
    """The command of llama.cpp's server with the same slots."""
    python = os.environ.get("GOLEM_ORACLE_PYTHON")
    if not python:
        sys.exit("set GOLEM_ORACLE_PYTHON to an interpreter that has golem-host's `oracle` extra")
    request = {"model": str(model), "slots": slots, "context": context, "threads": threads}
    return [python, str(PEER_SCRIPT), json.dumps(request)]


@contextmanager
def running(name: str, command: list[str]) -> Iterator[Server]:
    """Start it, wait until it is healthy, and stop it at the end, also when this process is told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        address = next((line.strip().split()[-1] for line in process.stdout if "http://" in line), None)
        if address is None:
            sys.exit(f"{name} did not start: {' '.join(command)}")
        with httpx.Client(base_url=address, timeout=600) as client:
            while client.get("/health").status_code != 200:
                time.sleep(0.01)
            yield Server(name, process, client, time.monotonic() - started)
    finally:
        process.terminate()
        process.wait(30)
