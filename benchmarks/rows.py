"""The rows of the table: what is done, with which file, against whom, and the ratio that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import measures
from model_files import weights_read
from servers import Server

LLAMA_SERVER, IK_LLAMA, PLAIN_READ = "llama-server", "ik_llama.cpp", "plain read"
SENTENCE_TRANSFORMERS = "sentence-transformers"
LAYA = "laya"
MOSHI = "moshi"
DIFFUSERS = "diffusers"

Measure = Callable[[Any, Random], float]


@dataclass(frozen=True)
class Row:
    """`ours` and `theirs` measure this host and the peer in the same unit; `wanted` is the least ratio of the two."""

    name: str
    file: str
    work: str
    peer: str
    ours: Measure
    theirs: Measure
    wanted: float | None = None
    unit: str = "t/s"


def weights_per_second(server: Server, chance: Random) -> float:
    """GB/s: every token of an answer is one pass over all weights, the first one's reads the short prompt as well."""
    return weights_read(server.model) * measures.draw(server, chance) / 1e9


def read_plainly(pages: str, bus: Any, chance: Random) -> float:
    return bus.rate(pages)


def chat_rows(file: str, draw: float | None = None, prompt: float | None = None, **more: float | None) -> list[Row]:
    """Rows of a file against llama-server, with the wanted ratios; `more`: `ik_prompt`, `together`, `busy`."""
    rows = [
        Row(f"{file}-draw", file, "one client, 64 tokens", LLAMA_SERVER, measures.draw, measures.draw, draw),
        Row(f"{file}-prompt", file, "prompt of 480 tokens", LLAMA_SERVER, measures.read, measures.read, prompt),
    ]
    if "ik_prompt" in more:
        work, wanted = "prompt of 480 tokens", more["ik_prompt"]
        rows.append(Row(f"{file}-prompt-ik", file, work, IK_LLAMA, measures.read, measures.read, wanted))
    if "together" in more:
        measure, work = measures.draw_together, "four clients at once, 64 tokens each"
        rows.append(Row(f"{file}-together", file, work, LLAMA_SERVER, measure, measure, more["together"]))
    if "busy" in more:
        measure, work = measures.draw_beside_other_work, "one client, one core kept busy by another process"
        rows.append(Row(f"{file}-busy", file, work, LLAMA_SERVER, measure, measure, more["busy"]))
    return rows


def bus_row(file: str, pages: str, wanted: float | None) -> Row:
    """How near drawing comes to the speed at which memory can be read at all."""
    work = f"weights read while generating, against 1 GiB in {pages} pages"
    theirs = partial(read_plainly, pages)
    return Row(f"{file}-bus-{pages}", file, work, PLAIN_READ, weights_per_second, theirs, wanted, "GB/s")


ROWS = [
    *chat_rows("smollm2", 1.6, 2.3, ik_prompt=1.0, together=2.2, busy=2.0),
    *chat_rows("gemma3", 1.5, 1.8, ik_prompt=1.0, together=1.8, busy=2.0),
    *chat_rows("qwen3-0.6b", 1.3, 1.5, ik_prompt=None),
    *chat_rows("qwen3-4b", 1.2, 1.5, ik_prompt=None),
    bus_row("qwen3-4b", "ordinary", 0.75),
    bus_row("qwen3-4b", "huge", None),
]
"""Files are named as in model_files.py. A row without a wanted ratio is there to be known."""
