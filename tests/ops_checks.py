"""What the tests of operations share: random weights, a replay of one small recording, kernel against twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.ops import Recording, Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType


def weight(kind: str, *shape: int, seed: int = 0) -> Tensor:
    """A tensor of random values of one storage type: float types exactly, quantized ones from random blocks."""
    rng = np.random.default_rng(seed)
    ggml = GgmlType[kind]
    if kind == "F32":
        data = rng.standard_normal(shape, np.float32).view(np.uint8).reshape(-1)
    elif kind == "F16":
        data = rng.standard_normal(shape, np.float32).astype(np.float16).view(np.uint8).reshape(-1)
    elif kind == "BF16":
        data = (
            (rng.standard_normal(shape, np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1)
        )
    else:
        blocks = rng.integers(0, 256, (int(np.prod(shape)) // ggml.block_size, ggml.block_bytes), np.uint8)
        halves = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "Q4_K": (0, 2), "Q5_K": (0, 2)}
        halves |= {"Q4_1": (0, 2), "Q5_1": (0, 2), "TQ1_0": (52,), "TQ2_0": (64,), "PTQ1_0": (26,), "MXFP4": ()}
        for at in halves.get(kind, (0,)):
            scale = rng.uniform(0.01, 0.1, len(blocks)).astype(np.float16)
            blocks[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
        if kind == "MXFP4":
            blocks[:, 0] = rng.integers(120, 124, len(blocks))
        data = blocks.reshape(-1)
    return Tensor(f"{kind}.weight", shape, ggml, Path("test.gguf"), (ggml, data))


Build = Callable[..., Ref]


def run(backend: Any, build: Build, inputs: dict[str, NDArray[Any]], *, capacity: int | None = None) -> NDArray:
    """Record `build(**inputs)`, replay it, and return its output."""
    rows = len(next(iter(inputs.values())))
    recording = Recording()
    axis = recording.axis("rows", capacity or rows)
    refs = {
        name: recording.input(name, axis, *value.shape[1:], dtype="i32" if value.dtype == np.int32 else "f32")
        for name, value in inputs.items()
    }
    recording.output("out", build(**refs))
    program = backend.compile(recording)
    for name, value in inputs.items():
        program.inputs[name][:rows] = value
    program.run({"rows": rows})
    return program.output("out").copy()


def agree(native: Any, twin: Any, build: Build, inputs: dict[str, NDArray[Any]], units: float) -> None:
    """Native equals twin within `units` float32 epsilons of the row's largest value; rows alone equal rows together."""
    together = run(native, build, inputs)
    expected = run(twin, build, inputs)
    magnitude = np.abs(expected).reshape(len(expected), -1).max(-1, initial=1e-30)
    error = np.abs(together - expected).reshape(len(expected), -1).max(-1, initial=0.0)
    assert (error <= units * np.finfo(np.float32).eps * magnitude).all(), (error / magnitude).max()
    for row in range(len(together)):
        alone = run(native, build, {name: value[row : row + 1] for name, value in inputs.items()}, capacity=8)
        np.testing.assert_array_equal(alone[0], together[row])


def activations(rows: int, *shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, *shape), np.float32)
