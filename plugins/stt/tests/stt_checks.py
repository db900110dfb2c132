"""Recordings for tests, and streams of a tiny checkpoint without a lane."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from golem_host.api import Job
from golem_host.testing.tiny_stt import tiny_stt_directory
from golem_host_stt.checkpoint import Checkpoint, open_checkpoint
from golem_host_stt.listening import Request
from golem_host_stt.mimi_config import FRAME, SAMPLE_RATE
from golem_host_stt.passes import Passes
from golem_host_stt.stepper import ListeningStepper
from golem_host_stt.text import Pieces

Samples = NDArray[np.float32]

_folder = TemporaryDirectory(prefix="golem-host-stt-")


@cache
def tiny() -> Path:
    """A tiny checkpoint, made once."""
    return tiny_stt_directory(Path(_folder.name) / "tiny")


def recording(seconds: float, seed: int = 0) -> Samples:
    """Noise that swells and fades, with tones in it: codes and tokens of a tiny checkpoint follow it."""
    rng = np.random.default_rng(seed)
    at = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    loudness = 0.3 * np.abs(np.sin(2 * np.pi * (0.7 + 0.2 * seed) * at))
    tone = np.sin(2 * np.pi * (200 + 60 * seed) * at)
    return (loudness * (rng.standard_normal(len(at)) + tone)).astype(np.float32)


def encoded(samples: Samples, *, rate: int = SAMPLE_RATE, format: str = "WAV", subtype: str = "FLOAT") -> bytes:
    """An audio file."""
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=format, subtype=subtype)
    return out.getvalue()


def frames(samples: Samples) -> Samples:
    """Whole frames (n, 1920), silence at the end."""
    padded = np.zeros(-(-len(samples) // FRAME) * FRAME, np.float32)
    padded[: len(samples)] = samples
    return padded.reshape(-1, FRAME)


class Streams:
    """Passes of a checkpoint over a few slots."""

    def __init__(self, backend: Any, folder: Path | None = None, *, slots: int = 3, q8_0: bool = False) -> None:
        self.checkpoint: Checkpoint = open_checkpoint(folder or tiny())
        self.passes = Passes(self.checkpoint, backend, slots=slots, q8_0=q8_0, progress=lambda _: None)
        lm = self.checkpoint.lm
        self.pieces = Pieces(self.checkpoint.tokenizer, lm.text_cards, lm.padding)

    def codes(self, samples: Samples, cuts: Sequence[int] = (1, 3, 8, 2), slot: int = 0) -> NDArray[np.int32]:
        """Codes (frames, levels), encoded in passes of `cuts` frames, over and over."""
        whole, found, at = frames(samples), [], 0
        while at < len(whole):
            count = min(cuts[len(found) % len(cuts)], len(whole) - at)
            positions = range(at, at + count)
            found.append(self.passes.encode([slot] * count, list(positions), whole[at : at + count]))
            at += count
        return np.concatenate(found)

    def stepper(self, clock: Callable[[], float] = lambda: 0.0) -> ListeningStepper:
        """A stepper over these passes; its clock stands still."""
        checkpoint = self.checkpoint
        return ListeningStepper(self.passes, checkpoint.lm, checkpoint.timing, self.pieces, clock=clock)


def run(stepper: ListeningStepper, jobs: Sequence[Job[Request]], passes: int = 1000) -> None:
    """Step until all jobs have ended."""
    for _ in range(passes):
        if all(job.end is not None for job in jobs):
            return
        stepper.step()
    raise AssertionError("jobs that do not end")
