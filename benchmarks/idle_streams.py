"""What open streams that wait cost one that is answered: python benchmarks/idle_streams.py MODEL.gguf [--streams 200]

One client draws a long answer, alone, then beside streams that wait for the only slot, then alone again. Reported are
its tokens a second in each part and the middle one against the mean of the others, and the same of the server's
processor time for a token, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from golem_host.testing.command import Command

SETTLING = 50
"""Tokens that are not counted after streams were opened or closed."""


@dataclass(frozen=True)
class Part:
    """`rate` in tokens a second, `cpu` in processor seconds a token."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Round:
    """The active client before, beside and after the idle streams."""

    before: Part
    beside: Part
    after: Part

    @property
    def rate(self) -> float:
        """How fast it is beside them, of how fast alone."""
        return 2 * self.beside.rate / (self.before.rate + self.after.rate)

    @property
    def cpu(self) -> float:
        """What a token costs beside them, of what alone."""
        return 2 * self.beside.cpu / (self.before.cpu + self.after.cpu)


def request(url: str, body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def open_idle(url: str, count: int, closing: ExitStack) -> None:
    """So many streams, each on a connection of its own, from which nothing is read."""
    asked = request(url, {"prompt": "Wait", "max_tokens": 1, "stream": True})
    address = urlsplit(url)
    for _ in range(count):
        idle = closing.enter_context(socket.create_connection((address.hostname, address.port), timeout=30))
        idle.sendall(asked)


def waiting(url: str) -> int:
    """How many requests the queue holds."""
    text = httpx.get(f"{url}/metrics", timeout=30).text
    return int(
        float(next(line for line in text.splitlines() if line.startswith("llamacpp:requests_deferred")).split()[1])
    )


def skip(events: Iterator[str], tokens: int) -> None:
    for _ in range(tokens):
        next(events)


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def part(events: Iterator[str], tokens: int, pid: int) -> Part:
    started, used = time.perf_counter(), cpu_seconds(pid)
    skip(events, tokens)
    return Part(tokens / (time.perf_counter() - started), (cpu_seconds(pid) - used) / tokens)


def measure(url: str, pid: int, streams: int, tokens: int) -> Round:
    body = {"prompt": "Once upon a time", "max_tokens": 1 << 20, "ignore_eos": True, "stream": True}
    with (
        ExitStack() as closing,
        httpx.Client(timeout=120) as client,
        client.stream("POST", f"{url}/v1/completions", json=body) as reply,
    ):
        events = (line for line in reply.iter_lines() if line)
        skip(events, SETTLING)
        before = part(events, tokens, pid)
        open_idle(url, streams, closing)
        while waiting(url) < streams:
            skip(events, 1)
        skip(events, SETTLING)
        beside = part(events, tokens, pid)
        closing.close()
        while waiting(url):
            skip(events, 1)
        skip(events, SETTLING)
        return Round(before, beside, part(events, tokens, pid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=200, help="tokens of each part")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    words = ("--enable", "chat", "--chat-model", str(options.model), "--addr", "127.0.0.1:0", "--parallel", "1")
    words += ("--threads", str(options.threads))
    with Command(*words) as command:
        pid = command.process.pid
        rounds = [measure(command.url, pid, options.streams, options.tokens) for _ in range(options.rounds)]
    for each in rounds:
        parts = [f"{part.rate:.1f}/s at {part.cpu * 1e3:.2f} ms" for part in (each.before, each.beside, each.after)]
        print(f"{parts[0]} alone, {parts[1]} beside, {parts[2]} alone: rate {each.rate:.3f}, cpu {each.cpu:.3f}")
    rate, cpu = (statistics.median(ratios) for ratios in zip(*((each.rate, each.cpu) for each in rounds), strict=True))
    print(f"median of {len(rounds)}: rate {rate:.3f}, cpu {cpu:.3f}")


if __name__ == "__main__":
    main()
