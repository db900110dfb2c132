"""Drawing speed beside diffusers: python benchmarks/krea2.py

A step of a diffusion model of true structure and less width (1536, 8 blocks) at 512x512, in float32 and bfloat16, and
a decode by a VAE of true shape at 1024x1024; weights are random. Both sides run on the same cores and take turns, as in
benchmarks/chat.py; diffusers in a process of GOLEM_ORACLE_PYTHON. It holds its weights in memory; so does this host
with `--krea2-keep`, and reads them from the file for each step without (rows `streamed`). Of this host, which fuses a
text once for all steps, a picture of four steps is timed and a quarter told.

Then the memory that a bfloat16 step took, beside that of one block.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Generator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from golem_host.core_settings import cache_folder
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny_krea2 import TinyKrea2, tiny_krea2_directory
from golem_host_krea2 import dit, vae
from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.folders import find_files
from golem_host_krea2.layer import layer_bytes
from golem_host_krea2.picture import MULTIPLE
from golem_host_krea2.sampling import sigmas
from report import as_json, markdown, plain, setting
from results import compare
from rows import DIFFUSERS, Row
from servers import Size, interpreter

SIZES = TinyKrea2(
    width=1536, ff_width=4096, heads=12, kv_heads=3, head_dim=128, layers=8, taps=3, text_width=256, text_ff_width=768,
    time_dim=256, vae_channels=96,
)  # fmt: skip
TOKENS = 20
STEP_SIDE, DECODE_SIDE = 512, 1024
STEPS = 4
WANTED_BLOCKS = 1.2
"""The most memory a streamed step may take beside its activations, in blocks."""


class Ours:
    """This host's operations on the files in `folder`."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.backend = CpuBackend(threads=threads)
        self.folder = folder
        self._kept: dict[str, Opened] = {}

    def step(self, kind: str, side: int, *, kept: bool = True) -> float:
        """Seconds, of a picture of STEPS; `kept` blocks stay in memory from the first call on."""
        files = self._kept.get(kind) if kept else None
        if files is None:
            files = Opened(find_files(self.folder / kind), keep=kept)
        if kept:
            self._kept[kind] = files
        hparams, patches = files.dit_hparams, side // MULTIPLE
        rng = np.random.default_rng(0)
        taps = rng.standard_normal((TOKENS, hparams.taps, hparams.text.width)).astype(np.float32)
        x = rng.standard_normal((patches**2, dit.PATCH_VALUES)).astype(np.float32)
        times = sigmas(STEPS)[:-1]
        begun = time.perf_counter()
        text = _end(dit.fuse(self.backend, files.dit, hparams, taps))
        t, modulation = _end(dit.embed_times(self.backend, files.dit, hparams, times))
        denoiser = dit.Denoiser(self.backend, files.dit, hparams, patches, patches, TOKENS, files.kept)
        _end(denoiser.prepare())
        for step in range(STEPS):
            _end(denoiser.velocities(x, [text], t[step], modulation[step]))
        return (time.perf_counter() - begun) / STEPS

    def decode(self, kind: str, side: int) -> float:
        """Seconds."""
        files = Opened(find_files(self.folder / kind))
        weights = _end(files.decoder.load())
        latent = np.random.default_rng(0).standard_normal((16, side // 8, side // 8)).astype(np.float32)
        begun = time.perf_counter()
        _end(vae.decode(self.backend, weights, latent))
        return time.perf_counter() - begun


class Peer:
    """diffusers; a context manager that ends its process."""

    def __init__(self, folder: Path, threads: int) -> None:
        script = Path(__file__).parents[1] / "tests" / "oracle" / "krea2_speed.py"
        command = [interpreter("GOLEM_ORACLE_PYTHON"), str(script), str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.folder = folder

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def seconds(self, what: str, kind: str, side: int) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"root": str(self.folder / kind), "what": what, "side": side, "bfloat16": kind == "BF16"}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["seconds"]


def _step(kind: str, kept: bool, who: Ours, chance: Random) -> float:
    return 60 / who.step(kind, STEP_SIDE, kept=kept)


def _decode(side: int, who: Ours, chance: Random) -> float:
    return 60 / who.decode("F32", side)


def _theirs(what: str, kind: str, side: int, who: Peer, chance: Random) -> float:
    return 60 / who.seconds(what, kind, side)


def _step_row(kind: str, *, kept: bool) -> Row:
    name = f"krea2-{'step' if kept else 'streamed'}-{kind.lower()}"
    work = f"{'one step' if kept else 'one, from the file,'} of {STEP_SIDE}x{STEP_SIDE}"
    measures = partial(_step, kind, kept), partial(_theirs, "step", kind, STEP_SIDE)
    return Row(name, f"krea2 1536x8 {kind}", work, DIFFUSERS, *measures, 1.2 if kept else None, "/min")


def rows(decode_side: int) -> list[Row]:
    measures = partial(_decode, decode_side), partial(_theirs, "decode", "F32", decode_side)
    work = f"decode of {decode_side}x{decode_side}"
    return [
        *(_step_row(kind, kept=kept) for kept in (True, False) for kind in ("F32", "BF16")),
        Row("krea2-decode-f32", "krea2 1536x8 F32", work, DIFFUSERS, *measures, 1.0, "/min"),
    ]


def memory_line(ours: Ours) -> str:
    """What a streamed bfloat16 step takes, beside one block and its activations."""
    files = Opened(find_files(ours.folder / "BF16"))
    hparams, patches = files.dit_hparams, (STEP_SIDE // MULTIPLE) ** 2
    weights = dit.modulated(files.block(0), np.zeros((6, hparams.blocks.width), np.float32))
    both = layer_bytes(ours.backend, dit.block_recorder(hparams, TOKENS + patches), weights)
    block = sum(2 * int(np.prod(matrix.shape)) for matrix in weights.matrices.values())
    activations = both - block + 4 * (TOKENS + patches) * hparams.blocks.width * 4
    tracemalloc.start()  # numpy's arrays are counted
    ours.step("BF16", STEP_SIDE, kept=False)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    blocks = max(0, most - activations) / block
    verdict = "reached" if blocks <= WANTED_BLOCKS else "not reached"
    return (
        f"A bfloat16 step took {most / 2**20:.0f} MiB: activations {activations / 2**20:.0f} and {blocks:.2f} times a "
        f"block of {block / 2**20:.0f}; wanted at most {WANTED_BLOCKS}: {verdict}."
    )


def _end(work: Generator[None, float | None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--decode-side", type=int, default=DECODE_SIDE, help="pixels of a side of what is decoded")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "shapes", help="where files are made and kept")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print every rate as JSON")
    form.add_argument("--markdown", action="store_true", help="print the tables of docs/benchmarks.md")
    given = parser.parse_args()
    folder = given.folder / "krea2"
    for kind in ("F32", "BF16"):
        if not (folder / kind).is_dir():
            print(f"making {folder / kind}", file=sys.stderr)
            tiny_krea2_directory(folder / kind, SIZES, dtype=kind)
    facts = setting(Size(threads=given.threads), given.rounds, {DIFFUSERS})
    ours = Ours(folder, given.threads)
    with Peer(folder, given.threads) as peer:
        results = compare(rows(given.decode_side), ours, {DIFFUSERS: peer}, given.rounds)
    print(as_json(facts, results, []) if given.json else (markdown if given.markdown else plain)(facts, results))
    if not given.json:
        print("\n" + memory_line(ours))


if __name__ == "__main__":
    main()
