"""Chat speed beside llama.cpp's server and others: python benchmarks/chat.py [MODEL.gguf ...]

Without a file: the rows of docs/benchmarks.md, each with the ratio that is wanted. Ours and the peer run on the same
cores with the same slots and take turns, one request (or one crowd of clients) at a time, so that whatever else the
machine does falls on both; the ratio is the median over the rounds. Read the ratios, not the rates.

The peers are named by variables: see benchmarks/servers.py.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random

import measures
from golem_host.core_settings import cache_folder
from memory_bus import plain_read
from model_files import model_file
from report import as_json, markdown, memory_line, plain, setting
from resident import Memory, cache_mib, resident
from results import Result, compare
from rows import IK_LLAMA, LLAMA_SERVER, PLAIN_READ, ROWS, Row, chat_rows
from servers import Server, Size, golem_host, ik_llama, llama_server

MEMORY_FILE = "qwen3-4b"
MEMORY = f"{MEMORY_FILE}-memory"
"""The name of what is no row: what serving that file takes."""


@dataclass(frozen=True)
class Job:
    """A file, its rows, and whether memory is looked at when they have run."""

    path: Path
    rows: list[Row]
    memory: bool = False

    @property
    def peers(self) -> set[str]:
        return {row.peer for row in self.rows} | ({LLAMA_SERVER} if self.memory else set())

    def run(self, size: Size, rounds: int) -> tuple[list[Result], Memory | None]:
        openers = {
            LLAMA_SERVER: lambda: llama_server(self.path, size),
            IK_LLAMA: lambda: ik_llama(self.path, size),
            PLAIN_READ: lambda: plain_read(size.threads),
        }
        with ExitStack() as running:
            ours = running.enter_context(golem_host(self.path, size))
            peers = {name: running.enter_context(openers[name]()) for name in openers if name in self.peers}
            results = compare(self.rows, ours, peers, rounds)
            return results, self._memory(ours, peers[LLAMA_SERVER], size) if self.memory else None

    def _memory(self, ours: Server, theirs: Server, size: Size) -> Memory:
        for server in (ours, theirs):
            measures.fill(server, Random(MEMORY), size)
        file = self.path.stat().st_size / 2**20
        return Memory(self.path.name, file, cache_mib(self.path, size), resident(ours), resident(theirs))


def chosen(rows: list[Row], patterns: str) -> tuple[list[Row], bool]:
    """The rows that match one of the patterns (`smollm2-*,qwen3-4b-draw`), and whether memory does."""
    wanted = patterns.split(",")
    names = [row.name for row in rows]
    if any(row.file == MEMORY_FILE for row in rows):
        names.append(MEMORY)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            sys.exit(f"no row {pattern!r}; there are {', '.join(names)}")
    named = {name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)}
    return [row for row in rows if row.name in named], MEMORY in named


def main(about: str | None = __doc__, table: list[Row] = ROWS) -> None:
    """The command, over the rows of `table`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL.gguf", help="measure these instead")
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
    size = Size(threads=given.threads)

    if given.models:
        jobs = [Job(path, chat_rows(path.stem, together=None, busy=None)) for path in given.models]
    else:
        rows, memory = chosen(table, given.rows)
        files = dict.fromkeys([row.file for row in rows] + [MEMORY_FILE] * memory)
        jobs = [
            Job(
                model_file(file, given.folder),
                [row for row in rows if row.file == file],
                memory and file == MEMORY_FILE,
            )
            for file in files
        ]
    facts = setting(size, given.rounds, {peer for job in jobs for peer in job.peers})
    results: list[Result] = []
    memories: list[Memory] = []
    for job in jobs:
        print(f"measuring {job.path.name}", file=sys.stderr)
        found, footprint = job.run(size, given.rounds)
        results += found
        if footprint:
            memories.append(footprint)
    if given.json:
        print(as_json(facts, results, memories))
    else:
        print((markdown if given.markdown else plain)(facts, results))
        for footprint in memories:
            print("\n" + memory_line(footprint))


if __name__ == "__main__":
    main()
