"""What constraints cost: python benchmarks/constraints.py MODEL.gguf [--json]

Four figures: how fast answers under a JSON schema are drawn beside free ones, by turns, in one server and with the
usual sampling, by the clock and by the server's processor time; how long a vocabulary takes to prepare, which the first
constrained request waits for; how long a schema of 200 properties takes to compile (processor time, too: other programs
move the clock). One thread by default: several wait for each other, which is processor time as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golem_host.tables import table
from golem_host.text.tokenizer import Tokenizer, tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.constraints.json_schema import json_rule
from golem_host_chat.constraints.vocabulary import ConstraintVocabulary
from measures import OPENING, prompt
from servers import Server, Size, golem_host

DRAWN = 96
"""Tokens of each answer."""
LONG: dict[str, Any] = {
    "type": "array",
    "minItems": DRAWN,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "minimum": 0},
            "kind": {"enum": ["one", "two", "three"]},
        },
        "required": ["name", "count", "kind"],
        "additionalProperties": False,
    },
}
"""No answer of `DRAWN` tokens ends by itself."""
TYPES = ("string", "integer", "number", "boolean", "array")
PROPERTIES: dict[str, Any] = {
    "type": "object",
    "properties": {f"property_{number}": {"type": TYPES[number % len(TYPES)]} for number in range(200)},
    "required": [f"property_{number}" for number in range(0, 200, 2)],
    "additionalProperties": False,
}
WANTED = {
    "share of the free rate": 0.95,
    "the same, by processor time": 0.95,
    "seconds to prepare": 2.0,
    "milliseconds to compile": 100.0,
}


def rates(server: Server, tokens: list[int], fields: dict[str, Any]) -> tuple[float, float]:
    """Tokens a second of one answer, its prompt left out, and tokens a second of processor time, all of it.

    Raises RuntimeError when the answer is not of the wanted length.
    """
    body = {"prompt": tokens, "max_tokens": DRAWN, "seed": 1, **fields}
    begun = processor_seconds(server.process.pid)
    reply = server.client.post("/v1/completions", json=body)
    reply.raise_for_status()
    answer = reply.json()
    if answer["usage"]["completion_tokens"] != DRAWN:
        raise RuntimeError(f"asked for {DRAWN} tokens, got {answer['usage']}")
    return answer["timings"]["predicted_per_second"], DRAWN / (processor_seconds(server.process.pid) - begun)


def processor_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shares(model: Path, rounds: int, threads: int) -> list[tuple[float, float]]:
    """The rates under `LONG` over the free ones, a pair in each round, in both orders."""
    chance = random.Random(1)
    ways: list[dict[str, Any]] = [{"json_schema": LONG}, {"ignore_eos": True}]
    found: list[tuple[float, float]] = []
    with golem_host(model, Size(threads=threads)) as server:
        for way in ways:
            rates(server, prompt(chance, OPENING), way)
        for turn in range(rounds):
            tokens = prompt(chance, OPENING)
            order = ways if turn % 2 else ways[::-1]
            drawn = [rates(server, tokens, way) for way in order]
            constrained, free = drawn if turn % 2 else drawn[::-1]
            found.append((constrained[0] / free[0], constrained[1] / free[1]))
    return found


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process."""
    started = time.process_time()
    work()
    return time.process_time() - started


def compiling(tokenizer: Tokenizer, rounds: int) -> tuple[float, float]:
    """Seconds to prepare the vocabulary, and to compile `PROPERTIES`; medians."""
    prepared = statistics.median(seconds(ConstraintVocabulary(tokenizer).prepared) for _ in range(min(rounds, 3)))
    vocabulary = ConstraintVocabulary(tokenizer)
    vocabulary.prepared()

    def compile_schema() -> Constraint:
        return Constraint(vocabulary, f"start: answer\nanswer: {json_rule(PROPERTIES)}\n")

    return prepared, statistics.median(seconds(compile_schema) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args()
    with open_gguf(given.model) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        prepare, compiled = compiling(tokenizer, given.rounds)
    found = shares(given.model, given.rounds, given.threads)
    clock, processor = (statistics.median(column) for column in zip(*found, strict=True))
    figures = dict(zip(WANTED, (clock, processor, prepare, compiled * 1e3), strict=True))
    if given.json:
        facts = {"model": given.model.name, "tokens": len(tokenizer.vocab), "wanted": WANTED}
        print(json.dumps({**facts, "figures": figures, "shares": found}))
        return
    print(
        f"{given.model.name}, {len(tokenizer.vocab)} tokens, {given.threads} threads, {given.rounds} rounds of {DRAWN}"
    )
    print(table(("FIGURE", "MEDIAN", "AIM"), [(name, f"{figures[name]:.3f}", f"{WANTED[name]}") for name in WANTED]))


if __name__ == "__main__":
    main()
