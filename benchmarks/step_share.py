"""Python's share of a decode step: python benchmarks/step_share.py MODEL.gguf [--json]

Serves the model in a process of its own that notes when each native pass and each native draw begins and ends, and
draws answers over HTTP: one client and as many as there are slots, streamed and not. A step lasts from the start of one
pass to the start of the next of the same width; what is native in it is the pass and the draws, the rest is Python's:
sampling, text, events, the lane and the device loop, and waiting for the event loop's thread to let go of the
interpreter.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from golem_host.tables import table

DRAWN = 96
"""Tokens of each answer."""
WANTED = 0.05


@dataclass(frozen=True)
class Call:
    """One native call of the served process: columns of a pass (0: a draw), `time.perf_counter` at begin and end."""

    columns: int
    begin: float
    end: float


@dataclass(frozen=True)
class Share:
    """Medians over the steps of one way of asking, in microseconds; `share` of Python in the step."""

    work: str
    steps: int
    step: float
    native: float
    python: float
    share: float


class NotedLibrary:
    """The functions of the kernels library; its draws are noted in `calls`."""

    def __init__(self, lib: Any, calls: list[tuple[int, float, float]]) -> None:
        self._lib = lib
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)

    def golem_draw(self, *given: Any) -> int:
        begin = time.perf_counter()
        drawn = self._lib.golem_draw(*given)
        self._calls.append((0, begin, time.perf_counter()))
        return drawn


def serve(notes: Path, words: list[str]) -> int:
    """`golem-host` with every native call noted; they are written to `notes` when it stops."""
    from golem_host import cli
    from golem_host.kernels.library import Pool, load

    calls: list[tuple[int, float, float]] = []
    kernels = load()
    if kernels is None:
        sys.exit("there is no kernels library: everything is Python's")
    kernels.lib = NotedLibrary(kernels.lib, calls)
    run = Pool.run

    def noted(self: Pool, cmds: object, n: int, live: list[int]) -> None:
        begin = time.perf_counter()
        run(self, cmds, n, live)
        if live:  # what prepares the weights has no rows
            calls.append((live[0], begin, time.perf_counter()))

    Pool.run = noted
    try:
        return cli.main(words)
    finally:
        notes.write_text(json.dumps(calls), encoding="utf-8")


@contextmanager
def served(model: Path, notes: Path, slots: int, threads: int) -> Iterator[str]:
    """Its address. When it has stopped, the notes are there."""
    flags = ["--parallel", str(slots), "--context", str(1024 * slots), "--threads", str(threads)]
    words = ["--enable", "chat", "--chat-model", str(model), "--addr", "127.0.0.1:0", *flags]
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(notes), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = next((line.split()[-1] for line in process.stdout if "http://" in line), None)
        if address is None:
            sys.exit("the host did not start")
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def draw(client: httpx.Client, number: int, *, stream: bool, rules: dict[str, float]) -> None:
    body = {
        "prompt": f"{number}, {number + 1}, {number + 2},",
        "max_tokens": DRAWN,
        "stream": stream,
    }
    with client.stream("POST", "/v1/completions", json={**body, **rules}) as reply:
        reply.raise_for_status()
        for _ in reply.iter_bytes():
            pass


def measure(address: str, slots: int, rounds: int) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """Asks in every way; when each round began and ended, by way and number of clients."""
    sampled = {"temperature": 0.8, "seed": 1.0}
    ways = {"greedy": (False, {"temperature": 0.0}), "streamed": (True, {"temperature": 0.0})}
    ways["streamed, sampled"] = (True, sampled)
    spans: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with httpx.Client(base_url=address, timeout=600) as client, ThreadPoolExecutor(slots) as pool:
        draw(client, 7, stream=False, rules={})
        for turn in range(rounds):
            for way, (stream, rules) in ways.items():
                for clients in sorted({1, slots}):
                    begin = time.perf_counter()
                    numbers = [100 + 50 * turn + 10 * i for i in range(clients)]
                    list(pool.map(lambda n: draw(client, n, stream=stream, rules=rules), numbers))  # noqa: B023
                    spans.setdefault((way, clients), []).append((begin, time.perf_counter()))
    return spans


def share_of(work: str, calls: list[Call], clients: int, spans: list[tuple[float, float]]) -> Share:
    draws = [call for call in calls if not call.columns]
    begins = [draw.begin for draw in draws]
    steps: list[tuple[float, float]] = []
    for call, after in pairwise(call for call in calls if call.columns):
        if call.columns == after.columns == clients and any(b <= call.begin and after.end <= e for b, e in spans):
            drawn = draws[bisect_left(begins, call.begin) : bisect_left(begins, after.begin)]
            native = call.end - call.begin + sum(draw.end - draw.begin for draw in drawn)
            steps.append((after.begin - call.begin, native))
    step, native = (statistics.median(column) * 1e6 for column in zip(*steps, strict=True))
    python = statistics.median(whole - inside for whole, inside in steps) * 1e6
    return Share(work, len(steps), step, native, python, python / step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--clients", type=int, default=4, help="slots, and clients at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "calls.json"
        with served(given.model, notes, given.clients, given.threads) as address:
            spans = measure(address, given.clients, given.rounds)
        calls = [Call(*each) for each in json.loads(notes.read_text(encoding="utf-8"))]
    shares = [
        share_of(f"{clients} client{'s' if clients > 1 else ''}, {way}", calls, clients, found)
        for (way, clients), found in spans.items()
    ]
    if given.json:
        print(json.dumps({"model": given.model.name, "wanted": WANTED, "shares": [asdict(each) for each in shares]}))
        return
    print(
        f"{given.model.name}, {given.threads} threads, {given.rounds} rounds of {DRAWN} tokens; medians, microseconds"
    )
    rows = [
        (
            each.work,
            f"{each.steps}",
            f"{each.step:.0f}",
            f"{each.native:.0f}",
            f"{each.python:.0f}",
            f"{each.share:.1%}",
        )
        for each in shares
    ]
    print(table(("WORK", "STEPS", "STEP", "NATIVE", "PYTHON", f"SHARE (WANTED < {WANTED:.0%})"), rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(serve(Path(sys.argv[2]), sys.argv[3:]))
    main()
