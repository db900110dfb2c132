"""What `golem-host bench` times of an encoder: one short text, many in one request, and many clients with one each."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from golem_host.api import Workload
from golem_host_embed.runtime import EmbedRuntime, Texts
from golem_host_embed.tokens import Tokens

LENGTH = 32
"""Tokens of a text, where the model takes as many."""
MANY = 64
CLIENTS = 8


def workloads(runtime: EmbedRuntime) -> Sequence[Workload]:
    """Texts are random tokens, as dear as any others."""
    length = min(LENGTH, runtime.context)

    def request(random: Random, count: int) -> Texts:
        return runtime.request([Tokens(random.choices(range(runtime.tokens.size), k=length)) for _ in range(count)])

    def work(name: str, requests: int, texts: int) -> Workload:
        return Workload(
            f"{name} of {length} tokens",
            "tokens",
            lambda turn: [request(Random(turn * requests + index), texts) for index in range(requests)],
            lambda _: requests * texts * length,
        )

    return [
        work("one text", 1, 1),
        work(f"{MANY} texts", 1, MANY),
        work(f"{CLIENTS} clients, each one text", CLIENTS, 1),
    ]
