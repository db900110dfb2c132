"""What the tests of recurrent operations share: layers of one operation with its state, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Recording, Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

SLOTS, ROWS = 3, 40


def tensor(*shape: int, dtype: Any = np.float32) -> Tensor:
    values = np.random.default_rng(5).standard_normal(shape).astype(dtype)
    kind = GgmlType.F32 if dtype is np.float32 else GgmlType.F16
    return Tensor("conv.weight", shape, kind, Path("none.gguf"), (kind, values.view(np.uint8).reshape(-1)))


Build = Callable[[Any], tuple[Any, Callable[[dict[str, Ref], Ref, Ref], Ref]]]
"""From a backend, a state and a function that records the operation over it: inputs by name, slots, positions."""


def conv(taps: int, dtype: Any = np.float32) -> Build:
    def build(backend: Any) -> Any:
        weight, state = tensor(50, taps, dtype=dtype), backend.state(slots=SLOTS, shape=(taps - 1, 50))
        return state, lambda rows, slots, at: ops.causal_conv(rows["x"], weight, state, slots, at)

    return build


def delta(key_heads: int, heads: int, key_dim: int, value_dim: int) -> Build:
    def build(backend: Any) -> Any:
        state = backend.state(slots=SLOTS, shape=(heads, key_dim, value_dim))
        keys = 2 * key_heads * key_dim

        def record(rows: dict[str, Ref], slots: Ref, at: Ref) -> Ref:
            qkv = ops.l2_norm(ops.narrow(rows["wide"], 0, keys + heads * value_dim), 2 * key_heads, key_dim, 1e-6)
            kept, beta = (ops.sigmoid(ops.narrow(rows[name], 0, heads)) for name in ("decay", "beta"))
            return ops.gated_delta(qkv, kept, beta, state, slots, at, key_heads=key_heads)

        return state, record

    return build


BUILDS = [conv(2), conv(4), conv(4, np.float16), conv(7), delta(2, 4, 8, 12), delta(1, 3, 17, 35), delta(1, 1, 64, 64)]
WIDTHS = {"x": 50, "wide": 192, "decay": 4, "beta": 4}


class Layer:
    """One operation with its state, fed rows of random inputs in passes recorded for `width` rows."""

    def __init__(self, backend: Any, build: Build, *, width: int = ROWS) -> None:
        self.state, record = build(backend)
        recording = Recording()
        axis = recording.axis("rows", width)
        rows = {name: recording.input(name, axis, width, dtype="f32") for name, width in WIDTHS.items()}
        slots, positions = recording.input("slots", axis), recording.input("positions", axis)
        recording.output("out", record(rows, slots, positions))
        self.program = backend.compile(recording)
        rng = np.random.default_rng(11)
        self.inputs = {name: rng.standard_normal((ROWS, width), np.float32) for name, width in WIDTHS.items()}

    def feed(self, slots: Sequence[int] | int, positions: Sequence[int]) -> NDArray[np.float32]:
        """Rows of these slots; a row's inputs are those of its position, whatever its slot."""
        at = np.asarray(positions)
        for name, values in self.inputs.items():
            self.program.inputs[name][: len(at)] = values[np.clip(at, 0, ROWS - 1)]
        self.program.inputs["slots"][: len(at)] = slots
        self.program.inputs["positions"][: len(at)] = at
        self.program.run({"rows": len(at)})
        return self.program.output("out").copy()
