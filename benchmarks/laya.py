"""Typed decisions beside laya's own server on torch: python benchmarks/laya.py

Three questions about a short state, 225 positions in all, over HTTP to both: one client, and eight at once. Both sides
run on the same cores and take turns, as in benchmarks/chat.py. GOLEM_ORACLE_PYTHON names the peer's interpreter: see
benchmarks/servers.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from golem_host.core_settings import cache_folder
from report import as_json, markdown, plain, setting
from results import compare
from rows import LAYA, Row
from servers import Server, Size, golem_host_laya, laya_server
from shape_laya import write_laya_large

QUESTIONS: dict[str, Any] = {
    "team": {"type": "choice", "instructions": "Team?", "criteria": ["billing", "sales", "help"]},
    "urgency": {"type": "score", "instructions": "Urgent?", "criteria": ["low", "high"]},
    "bill": {"type": "noul", "instructions": "Bill?", "criteria": {"true": "is", "false": "not"}},
}
STATE = 25
"""Letters of a state, which are tokens: the questions alone have 150 positions."""
POSITIONS = 225
CLIENTS, TURNS = 8, 2
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def decisions(clients: int, turns: int, server: Server, chance: Random) -> float:
    """Positions per second of clients that ask one request after the other, each about a state of its own."""
    states = [["".join(chance.choices(LETTERS, k=STATE)) for _ in range(turns)] for _ in range(clients)]

    def ask(mine: list[str]) -> None:
        for state in mine:
            server.decide({"state": state, "questions": QUESTIONS}, POSITIONS)

    with ThreadPoolExecutor(clients) as pool:
        started = time.perf_counter()
        list(pool.map(ask, states))
        return clients * turns * POSITIONS / (time.perf_counter() - started)


_ONE, _EIGHT = partial(decisions, 1, TURNS), partial(decisions, CLIENTS, TURNS)
ROWS = [
    Row("laya-large-one", "laya-large", "three questions, one client", LAYA, _ONE, _ONE, 1.5),
    Row("laya-large-eight", "laya-large", f"three questions, {CLIENTS} clients", LAYA, _EIGHT, _EIGHT, 1.5),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--folder", type=Path, default=cache_folder() / "shapes", help="where the checkpoint is made and kept"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print every rate as JSON")
    form.add_argument("--markdown", action="store_true", help="print the tables of docs/benchmarks.md")
    given = parser.parse_args()
    size = Size(threads=given.threads)
    path = given.folder / "laya-large"
    if not path.is_dir():
        print(f"making {path}", file=sys.stderr)
        write_laya_large(path)
    facts = setting(size, given.rounds, {LAYA})
    with golem_host_laya(path, size) as ours, laya_server(path, size) as peer:
        results = compare(ROWS, ours, {LAYA: peer}, given.rounds)
    print(as_json(facts, results, []) if given.json else (markdown if given.markdown else plain)(facts, results))


if __name__ == "__main__":
    main()
