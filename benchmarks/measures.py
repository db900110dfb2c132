"""What is measured of a server, as tokens per second. Every prompt is new, so nothing is answered from a cache."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from servers import Reads, Server, Size

PROMPT = 480
"""Tokens of a long prompt."""
DRAWN = 64
"""Tokens of an answer."""
OPENING = 8
"""Tokens of the prompt before an answer."""
IDS = range(1000, 20000)
"""Ordinary tokens in every vocabulary that is measured."""


def prompt(chance: random.Random, length: int) -> list[int]:
    return chance.choices(IDS, k=length)


def read(reader: Reads, chance: random.Random) -> float:
    """A long prompt, up to its first token."""
    return PROMPT / reader.read(prompt(chance, PROMPT))


def draw(server: Server, chance: random.Random) -> float:
    """One answer to one client, from the request to its last token."""
    started = time.perf_counter()
    server.complete(prompt(chance, OPENING), DRAWN)
    return DRAWN / (time.perf_counter() - started)


def draw_together(server: Server, chance: random.Random, clients: int = 4) -> float:
    """All answers to `clients` clients at once."""
    prompts = [prompt(chance, OPENING) for _ in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        list(pool.map(lambda tokens: server.complete(tokens, DRAWN), prompts))
        return clients * DRAWN / (time.perf_counter() - started)


def fill(server: Server, chance: random.Random, size: Size) -> None:
    """Use every position of every slot, so that all caches and weights are in memory."""
    prompts = [prompt(chance, size.context // size.slots - 1) for _ in range(size.slots)]
    with ThreadPoolExecutor(size.slots) as pool:
        list(pool.map(lambda tokens: server.complete(tokens, 1), prompts))


def draw_beside_other_work(server: Server, chance: random.Random) -> float:
    """One answer while another process computes without a pause on whatever core the system gives it."""
    with other_work():
        return draw(server, chance)


@contextmanager
def other_work() -> Iterator[None]:
    busy = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
