"""Chat speed beside llama.cpp's server: python benchmarks/chat.py MODEL.gguf

Both servers run on the same cores with the same slots and take turns, one request (or one crowd of clients) at a time,
so that whatever else the machine does falls on both. Read the ratios, not the rates.

prompt    tokens per second of a prompt nobody asked before, one token drawn
draw      tokens per second of one answer
together  tokens per second of all answers to `--clients` clients at once
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servers import Server, host, peer, running

DRAWN = 64
"""Tokens of each answer."""
WORDS = (
    "river",
    "stone",
    "bright",
    "window",
    "under",
    "seven",
    "garden",
    "slowly",
    "letter",
    "north",
    "water",
    "voice",
)


def long_prompt(chance: random.Random) -> str:
    """Some 300 tokens that share no beginning with another prompt."""
    return " ".join(chance.choice(WORDS) for _ in range(300))


def counting(chance: random.Random) -> str:
    """A prompt that models continue for as long as they are let."""
    first = chance.randrange(100, 800)
    return f"{first}, {first + 1}, {first + 2}, {first + 3},"


def read(server: Server, chance: random.Random, clients: int) -> float:
    prompt = long_prompt(chance)
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    started = time.perf_counter()
    usage = server.client.post("/v1/completions", json=body).json()["usage"]
    return usage["prompt_tokens"] / (time.perf_counter() - started)


def draw(server: Server, chance: random.Random, clients: int) -> float:
    started = time.perf_counter()
    return server.complete(counting(chance), DRAWN) / (time.perf_counter() - started)


def draw_together(server: Server, chance: random.Random, clients: int) -> float:
    prompts = [counting(chance) for _ in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        drawn = sum(pool.map(lambda prompt: server.complete(prompt, DRAWN), prompts))
        return drawn / (time.perf_counter() - started)


SCENARIOS: dict[str, Callable[[Server, random.Random, int], float]] = {
    "prompt": read,
    "draw": draw,
    "together": draw_together,
}


def compare(servers: list[Server], rounds: int, clients: int) -> dict[str, dict[str, float]]:
    """Per scenario: each server's median rate, and the median over the rounds of the first's rate by the second's."""
    rates: dict[str, list[list[float]]] = {name: [] for name in SCENARIOS}
    for turn in range(-1, rounds):
        for name, measure in SCENARIOS.items():
            order = servers if turn % 2 else servers[::-1]
            # The same prompts for both; the first turn only warms up.
            found = {server.name: measure(server, random.Random(f"{turn} {name}"), clients) for server in order}
            if turn >= 0:
                rates[name].append([found[server.name] for server in servers])
    return {
        name: {
            **{server.name: statistics.median(row[i] for row in rows) for i, server in enumerate(servers)},
            "ratio": statistics.median(row[0] / row[1] for row in rows),
        }
        for name, rows in rates.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args()
    size = {"slots": given.clients, "context": 1024 * given.clients, "threads": given.threads}
    with (
        running("golem-host", host(given.model, **size)) as ours,
        running("llama.cpp", peer(given.model, **size)) as its,
    ):
        results = compare([ours, its], given.rounds, given.clients)
        ready = {server.name: server.ready_seconds for server in (ours, its)}
        memory = {server.name: server.resident_mib() for server in (ours, its)}
    if given.json:
        print(json.dumps({"model": given.model.name, "rates": results, "ready_seconds": ready, "resident_mib": memory}))
        return
    print(f"{given.model.name}, {given.threads} threads, {given.clients} clients, medians of {given.rounds} rounds")
    print(f"{'':16}{'golem-host':>12}{'llama.cpp':>12}{'ratio':>8}")
    for name, row in results.items():
        print(f"{name + ' t/s':16}{row['golem-host']:12.1f}{row['llama.cpp']:12.1f}{row['ratio']:8.2f}")
    print(f"{'ready s':16}{ready['golem-host']:12.2f}{ready['llama.cpp']:12.2f}")
    print(f"{'resident MiB':16}{memory['golem-host']:12.0f}{memory['llama.cpp']:12.0f}")


main()
