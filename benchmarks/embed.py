"""Embedding speed beside llama.cpp's server and sentence-transformers: python benchmarks/embed.py

The rows of docs/benchmarks.md, each with the ratio that is wanted. Both sides run on the same cores and take turns, as
in benchmarks/chat.py. Texts have 10 to 60 tokens, new ones each time. The peers are named by variables: see
benchmarks/servers.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from golem_host.core_settings import cache_folder
from model_files import model_file
from report import as_json, markdown, plain, setting
from results import Result, compare
from rows import LLAMA_SERVER, SENTENCE_TRANSFORMERS, Row
from servers import Size, golem_host_embed, llama_server, sentence_transformers

TEXTS = 64
"""Of one request ..."""
CLIENTS, TURNS = 8, 4
"""... or clients at once, each of which asks for one text so many times."""
LENGTHS = range(10, 61)
"""Tokens of a text, those around it included."""
IDS = range(1000, 200_000)
"""Ordinary tokens of the nomic shape."""
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state")
"""Each is one token of MiniLM's."""
PEER_SLOTS, PEER_BATCH = 8, 2048
"""What llama-server is given: sequences of one batch, and its tokens. More of either is no faster here."""


class Embeds(Protocol):
    def embed(self, texts: Any) -> float: ...


def tokens(chance: Random, count: int) -> tuple[list[list[int]], int]:
    """Texts as ids, and how many tokens they have."""
    texts = [[0, *chance.choices(IDS, k=chance.choice(LENGTHS) - 2), 2] for _ in range(count)]
    return texts, sum(map(len, texts))


def words(chance: Random, count: int) -> tuple[list[str], int]:
    """Texts as words, and how many tokens they have."""
    lengths = [chance.choice(LENGTHS) for _ in range(count)]
    return [" ".join(chance.choices(WORDS, k=length - 2)) for length in lengths], sum(lengths)


def one_request(make: Any, who: Embeds, chance: Random) -> float:
    """Tokens per second of a request of many texts."""
    texts, count = make(chance, TEXTS)
    return count / who.embed(texts)


def clients(who: Embeds, chance: Random) -> float:
    """Tokens per second of clients that each ask for one text after the other."""
    texts, count = tokens(chance, CLIENTS * TURNS)
    shares = [texts[client::CLIENTS] for client in range(CLIENTS)]

    def ask(mine: Sequence[list[int]]) -> None:
        for text in mine:
            who.embed([text])

    with ThreadPoolExecutor(CLIENTS) as pool:
        started = time.perf_counter()
        list(pool.map(ask, shares))
        return count / (time.perf_counter() - started)


def _rows(file: str) -> list[Row]:
    many, single = partial(one_request, tokens), f"{CLIENTS} clients at once, one text each"
    return [
        Row(f"{file}-texts", file, f"one request of {TEXTS} texts", LLAMA_SERVER, many, many, 1.2),
        Row(f"{file}-clients", file, single, LLAMA_SERVER, clients, clients, 1.5),
    ]


_SENTENCES = partial(one_request, words)
ROWS = [
    *_rows("nomic-v2-f16"),
    *_rows("nomic-v2-q8_0"),
    Row("minilm-texts", "minilm", f"one request of {TEXTS} texts", SENTENCE_TRANSFORMERS, _SENTENCES, _SENTENCES, 1.2),
]


def measured(file: str, path: Path, rows: list[Row], size: Size, rounds: int) -> list[Result]:
    """Rows of one file."""
    openers = {
        LLAMA_SERVER: lambda: llama_server(path, size, embeddings=PEER_BATCH),
        SENTENCE_TRANSFORMERS: lambda: sentence_transformers(path, size),
    }
    print(f"measuring {file}", file=sys.stderr)
    with ExitStack() as running:
        ours = running.enter_context(golem_host_embed(path, size))
        peers = {
            row.peer: running.enter_context(openers[row.peer]()) for row in {row.peer: row for row in rows}.values()
        }
        return compare(rows, ours, peers, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="*", help="patterns of row names, separated by commas (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--folder", type=Path, default=cache_folder() / "shapes", help="where files of random weights are made and kept"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print every rate as JSON")
    form.add_argument("--markdown", action="store_true", help="print the tables of docs/benchmarks.md")
    given = parser.parse_args()
    size = Size(slots=PEER_SLOTS, context=PEER_SLOTS * 512, threads=given.threads)
    rows = [row for row in ROWS if any(fnmatchcase(row.name, pattern) for pattern in given.rows.split(","))]
    if not rows:
        sys.exit(f"no row {given.rows!r}; there are {', '.join(row.name for row in ROWS)}")
    facts = setting(size, given.rounds, {row.peer for row in rows})
    results: list[Result] = []
    for file in dict.fromkeys(row.file for row in rows):
        of_file = [row for row in rows if row.file == file]
        results += measured(file, model_file(file, given.folder), of_file, size, given.rounds)
    print(as_json(facts, results, []) if given.json else (markdown if given.markdown else plain)(facts, results))


if __name__ == "__main__":
    main()
