"""Speech to text beside moshi on torch: python benchmarks/stt.py

Frames of 80 ms per second through codec and language model of a checkpoint of stt-1b-en_fr's true shape with random
weights: one stream, and eight at once, beside one of moshi's in bfloat16, as its own command runs it.
Both sides run on the same cores and take turns, as in benchmarks/chat.py. 12.5 frames a second keep up with one live
stream.
GOLEM_ORACLE_PYTHON names the peer's interpreter, which has moshi (extra `oracle-alone`).
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from golem_host.core_settings import cache_folder
from golem_host.devices.cpu import CpuBackend
from golem_host_stt.checkpoint import Checkpoint, open_checkpoint
from golem_host_stt.mimi_config import FRAME
from golem_host_stt.passes import Passes
from report import as_json, markdown, plain, setting
from results import compare
from rows import MOSHI, Row
from servers import Size, interpreter
from stt_shape import write

FRAMES, STREAMS = 12, 8
SCRIPT = Path(__file__).parents[1] / "tests" / "oracle" / "moshi_stt.py"


def samples(chance: Random) -> np.ndarray:
    """Frames of noise, float32 (FRAMES, 1920)."""
    return np.random.default_rng(chance.randrange(1 << 32)).normal(0, 0.2, (FRAMES, FRAME)).astype(np.float32)


class Engine:
    """This host's passes, without a lane."""

    def __init__(self, checkpoint: Checkpoint, threads: int, *, q8_0: bool) -> None:
        self._lm = checkpoint.lm
        self._passes = Passes(
            checkpoint, CpuBackend(threads=threads), slots=STREAMS, q8_0=q8_0, progress=lambda _: None
        )

    def rate(self, streams: int, chance: Random) -> float:
        """Frames per second of streams that begin anew, one frame of each in a pass."""
        slots, text = [*range(streams)], [self._lm.text_cards] * streams
        frames = samples(chance)
        codes = np.full((streams, self._lm.levels), self._lm.cards, np.int32)
        self._passes.step(slots, [0] * streams, text, codes)
        started = time.perf_counter()
        for at, frame in enumerate(frames):
            codes = self._passes.encode(slots, [at] * streams, np.repeat(frame[None], streams, 0))
            text = [step.token for step in self._passes.step(slots, [at + 1] * streams, text, codes)]
        return streams * len(frames) / (time.perf_counter() - started)


class Moshi:
    """moshi in its own interpreter."""

    def __init__(self, process: subprocess.Popen[str], checkpoint: Path, threads: int, folder: Path) -> None:
        self._process, self._checkpoint, self._threads, self._folder = process, checkpoint, threads, folder

    def rate(self, chance: Random) -> float:
        """Frames per second of one stream, without its first frame."""
        request = {
            "model": str(self._checkpoint),
            "pcm": base64.b64encode(samples(chance).tobytes()).decode(),
            "threads": self._threads,
            "dtype": "bfloat16",
            "output": str(self._folder / "out.npz"),
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        if "error" in reply:
            raise SystemExit(f"moshi failed: {reply['error']}")
        return (FRAMES - 1) / reply["seconds"]


@contextmanager
def moshi(checkpoint: Path, threads: int) -> Iterator[Moshi]:
    command = [interpreter("GOLEM_ORACLE_PYTHON"), str(SCRIPT)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        yield Moshi(process, checkpoint, threads, Path(folder))
        assert process.stdin is not None
        process.stdin.close()


def _ours(kind: str, streams: int, engines: dict[str, Engine], chance: Random) -> float:
    return engines[kind].rate(streams, chance)


def _theirs(peer: Moshi, chance: Random) -> float:
    return peer.rate(chance)


ROWS = [
    Row(
        f"stt-1b-{kind}-{count}",
        "stt-1b",
        f"{kind}, {work}",
        MOSHI,
        partial(_ours, kind, n),
        _theirs,
        wanted,
        "frames/s",
    )
    for kind in ("bf16", "q8_0")
    for count, n, work, wanted in (("one", 1, "one stream", 1.5), ("eight", STREAMS, f"{STREAMS} streams", 3.0))
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
    path = given.folder / "stt-1b"
    if not path.is_dir():
        print(f"making {path}", file=sys.stderr)
    write(path)
    facts = setting(Size(threads=given.threads), given.rounds, {MOSHI})
    with open_checkpoint(path) as checkpoint, moshi(path, given.threads) as peer:
        engines = {kind: Engine(checkpoint, given.threads, q8_0=kind == "q8_0") for kind in ("bf16", "q8_0")}
        results = compare(ROWS, engines, {MOSHI: peer}, given.rounds)
    print(as_json(facts, results, []) if given.json else (markdown if given.markdown else plain)(facts, results))


if __name__ == "__main__":
    main()
