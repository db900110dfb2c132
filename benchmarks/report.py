"""The results as a table for a terminal or a page, and what they were measured on."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

from golem_host.host import host_version
from golem_host.kernels import library
from golem_host.tables import table
from resident import WANTED, Memory
from results import Result
from rows import DIFFUSERS, IK_LLAMA, LAYA, LLAMA_SERVER, MOSHI, SENTENCE_TRANSFORMERS
from servers import Size, interpreter

HEADINGS = ("FILE", "WORK", "PEER", "GOLEM-HOST", "PEER'S", "RATIO", "RATIOS SEEN", "WANTED", "")


def setting(size: Size, rounds: int, peers: set[str]) -> dict[str, str]:
    """Machine, versions and how it was measured, by name."""
    kernels = library.load()
    facts = {
        "date": date.today().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {os.sysconf('SC_PHYS_PAGES') * 4096 / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "golem-host": f"{host_version()} {_commit()}, kernels: {kernels.isa if kernels else 'none, torch twins'}",
    }
    if LLAMA_SERVER in peers:
        facts[LLAMA_SERVER] = _llama_version()
    if IK_LLAMA in peers:
        facts[IK_LLAMA] = f"ik-llama-cpp-python {_package(interpreter('GOLEM_IK_PYTHON'), 'ik-llama-cpp-python')}"
    if SENTENCE_TRANSFORMERS in peers:
        python = interpreter("GOLEM_ST_PYTHON")
        facts[SENTENCE_TRANSFORMERS] = f"{_package(python, SENTENCE_TRANSFORMERS)}, torch {_package(python, 'torch')}"
    for name in peers & {DIFFUSERS, LAYA, MOSHI}:
        python = interpreter("GOLEM_ORACLE_PYTHON")
        facts[name] = f"{_package(python, name)}, torch {_package(python, 'torch')}"
    slots = f"{size.slots} slots of {size.context // size.slots} positions"
    facts["measured"] = f"{size.threads} threads, {slots}; medians of {rounds} rounds"
    return facts


def plain(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    lines = [f"{name}: {fact}" for name, fact in facts.items()]
    if results:
        lines += ["", table(HEADINGS, [_cells(result) for result in results])]
    return "\n".join(lines)


def markdown(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    """Two tables: the facts, and the results."""
    tables = [_grid(["", ""], facts.items())]
    if results:
        rows = [[result.row.name, *_cells(result)] for result in results]
        tables.append(_grid(["row", *(name.lower() for name in HEADINGS)], rows))
    return "\n\n".join(tables)


def as_json(facts: Mapping[str, str], results: Sequence[Result], memories: Sequence[Memory]) -> str:
    """Everything, with the rates of every round."""
    rates = [
        {"row": one.row.name, "unit": one.row.unit, "ours": one.ours, "theirs": one.theirs, "ratio": one.ratio}
        for one in results
    ]
    return json.dumps({"setting": dict(facts), "rows": rates, "memory": [asdict(one) for one in memories]}, indent=2)


def memory_line(memory: Memory) -> str:
    verdict = "reached" if memory.times_file <= WANTED else "not reached"
    ours, theirs = memory.ours, memory.theirs
    return (
        f"Serving {memory.model} ({memory.file:.0f} MiB, caches {memory.caches:.0f} MiB): golem-host holds "
        f"{ours.rss:.0f} MiB (private {ours.anonymous:.0f}, in huge pages {ours.huge:.0f}), without the caches "
        f"{memory.times_file:.2f} times the file, wanted at most {WANTED}: {verdict}. llama-server holds "
        f"{theirs.rss:.0f} MiB (private {theirs.anonymous:.0f}, in huge pages {theirs.huge:.0f})."
    )


def _cells(result: Result) -> tuple[str, ...]:
    row = result.row
    verdict = "" if row.wanted is None else "reached" if result.ratio >= row.wanted else "not reached"
    return (
        row.file,
        row.work,
        row.peer,
        f"{statistics.median(result.ours):.1f} {row.unit}",
        f"{statistics.median(result.theirs):.1f} {row.unit}",
        f"{result.ratio:.2f}",
        f"{min(result.ratios):.2f} to {max(result.ratios):.2f}",
        "" if row.wanted is None else f"{row.wanted:g}",
        verdict,
    )


def _grid(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown processor")


def _commit() -> str:
    """The commit of the source tree, `+` when files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+"]
    folder = Path(__file__).parent
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()


def _llama_version() -> str:
    if binary := os.environ.get("GOLEM_LLAMA_SERVER"):
        told = subprocess.run([binary, "--version"], capture_output=True, text=True)
        return "native build, " + "; ".join((told.stdout + told.stderr).strip().splitlines()[:2])
    return f"xllamacpp {_package(interpreter('GOLEM_ORACLE_PYTHON'), 'xllamacpp')}"


def _package(python: str, name: str) -> str:
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
