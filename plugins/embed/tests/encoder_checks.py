"""What the tests of encoders share: passes of a checkpoint over token lists, and how far vectors are apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cpu import CpuBackend
from golem_host_embed.checkpoint import Checkpoint, open_checkpoint
from golem_host_embed.passes import Passes

Texts = Sequence[Sequence[int]]


def passes_of(source: Path | Checkpoint, backend: CpuBackend, *, capacity: int = 512) -> Passes:
    """Weights brought into memory and the pass compiled; the checkpoint stays open with it."""
    passes = Passes(open_checkpoint(source) if isinstance(source, Path) else source, backend, capacity=capacity)
    passes.prepare(lambda done: None)
    return passes


def computed(passes: Passes, texts: Texts, segments: Texts | None = None) -> NDArray[np.float32]:
    """What each text gets when all are in one pass."""
    flat = np.array([id for text in texts for id in text], np.int32)
    marks = np.zeros_like(flat) if segments is None else np.array([s for text in segments for s in text], np.int32)
    return passes.run(flat, marks, np.array([len(text) for text in texts], np.int32)).copy()


def random_texts(count: int, vocab: int, *, longest: int = 40, seed: int = 0) -> list[list[int]]:
    """Token lists of 1 to `longest` tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(4, vocab, rng.integers(1, longest + 1)).tolist() for _ in range(count)]


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """Of the rows of two matrices."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))
