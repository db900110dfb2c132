"""llama.cpp's own benchmarks, of a build for Vulkan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vulkan_rates import DRAWN, SLOTS

FOLDER = "GOLEM_LLAMA_VULKAN"
SECONDS = 240
"""After which a program that hangs is given up."""


@dataclass(frozen=True)
class Peer:
    """Tokens per second: of a prompt, and drawn by so many sequences at once."""

    prompt: float | None
    drawing: dict[int, float]


def find_peer(model: Path, prompt: int) -> Peer | None:
    """Measure llama.cpp where its programs are: both with every layer on the device. None where neither is."""
    bench, batched = _program("llama-bench"), _program("llama-batched-bench")
    if bench is None and batched is None:
        return None
    read, drawn = None, {}
    if bench is not None:
        words = [bench, "-m", str(model), "-ngl", "999", "-p", str(prompt), "-n", "0", "-r", "3", "-o", "json"]
        read = prompt_rate(_output(words))
    if batched is not None:
        sequences = ",".join(map(str, SLOTS))
        words = [batched, "-m", str(model), "-ngl", "999", "-c", str(max(SLOTS) * 128), "--output-format", "jsonl"]
        drawn = drawing_rates(_output([*words, "-npp", "8", "-ntg", str(DRAWN), "-npl", sequences]).splitlines())
    return Peer(read, drawn)


def prompt_rate(output: str) -> float | None:
    """The rate in what `llama-bench -o json` prints of one prompt; None when there is none."""
    try:
        return float(next(each["avg_ts"] for each in json.loads(output) if each["n_prompt"]))
    except (ValueError, KeyError, TypeError, StopIteration):
        return None


def drawing_rates(lines: Iterable[str]) -> dict[int, float]:
    """Rates by number of sequences in what `llama-batched-bench --output-format jsonl` prints, among other lines."""
    found: dict[int, float] = {}
    for line in lines:
        if line.startswith("{"):
            run = json.loads(line)
            found[int(run["pl"])] = float(run["speed_tg"])
    return found


def _program(name: str) -> str | None:
    folder = os.environ.get(FOLDER)
    return shutil.which(name, path=folder) if folder else shutil.which(name)


def _output(words: list[str]) -> str:
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{words[0]}: {error}", file=sys.stderr)
        return ""
    return ran.stdout
