"""Gated delta net layers and multi-axis rotations, written in the operations, against transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.ops import Recording
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType
from oracle_client import Oracle

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module", params=[True, False], ids=["native", "twins"])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    if request.param and library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2, native=request.param)


def tensor(values: NDArray[Any]) -> Tensor:
    data = np.ascontiguousarray(values, np.float32)
    return Tensor(
        "given.weight", data.shape, GgmlType.F32, Path("none.gguf"), (GgmlType.F32, data.view(np.uint8).reshape(-1))
    )


def apart(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Root mean square of the difference over that of `expected`."""
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


class DeltaNet:
    """A gated delta net layer as a GGUF stores it: heads of values in the order in which head h has key head h % n."""

    def __init__(self, weights: dict[str, NDArray[np.float32]], key_heads: int, value_heads: int, dim: int) -> None:
        self.key_heads, self.value_heads, self.dim = key_heads, value_heads, dim
        heads = np.arange(value_heads)
        order = heads % key_heads * (value_heads // key_heads) + heads // key_heads
        values = (order[:, None] * dim + np.arange(dim)).ravel()
        keys = 2 * key_heads * dim
        mixed = np.concatenate([np.arange(keys), keys + values])
        self.qkv = tensor(weights["in_proj_qkv.weight"][mixed])
        self.z = tensor(weights["in_proj_z.weight"][values])
        self.beta = tensor(weights["in_proj_b.weight"][order])
        self.alpha = tensor(weights["in_proj_a.weight"][order])
        self.rate = tensor(-np.exp(weights["A_log"][order]))
        self.bias = tensor(weights["dt_bias"][order])
        self.conv = tensor(weights["conv1d.weight"][mixed, 0])
        self.norm = tensor(weights["norm.weight"])
        self.out = tensor(weights["out_proj.weight"][:, values])

    def run(self, backend: CpuBackend, x: NDArray[np.float32]) -> NDArray[np.float32]:
        recording = Recording()
        axis = recording.axis("rows", len(x))
        h = recording.input("x", axis, x.shape[1], dtype="f32")
        slots, positions = recording.input("slots", axis), recording.input("positions", axis)
        past = backend.state(slots=1, shape=(self.conv.shape[1] - 1, self.conv.shape[0]))
        state = backend.state(slots=1, shape=(self.value_heads, self.dim, self.dim))
        qkv = ops.causal_conv(ops.linear(h, self.qkv), self.conv, past, slots, positions)
        qkv = ops.l2_norm(qkv, 2 * self.key_heads, self.dim, 1e-6)
        kept = ops.decay(ops.linear(h, self.alpha), self.rate, self.bias)
        beta = ops.sigmoid(ops.linear(h, self.beta))
        o = ops.gated_delta(qkv, kept, beta, state, slots, positions, key_heads=self.key_heads)
        z = ops.linear(h, self.z).reshape(self.value_heads, self.dim)
        y = ops.swiglu(z, ops.rms_norm(o, self.norm, 1e-6))
        recording.output("out", ops.linear(y, self.out))
        program = backend.compile(recording)
        program.inputs["x"][:], program.inputs["positions"][:] = x, np.arange(len(x))
        program.run({"rows": len(x)})
        return program.output("out")


@pytest.mark.parametrize(
    ("key_heads", "value_heads", "dim", "taps", "rows"), [(2, 6, 24, 4, 50), (4, 4, 32, 3, 17), (1, 2, 128, 4, 130)]
)
def test_gated_delta_net(
    oracle: Oracle, backend: CpuBackend, key_heads: int, value_heads: int, dim: int, taps: int, rows: int
) -> None:
    sizes = {"key_heads": key_heads, "value_heads": value_heads, "dim": dim, "taps": taps, "rows": rows}
    expected = oracle.transformers_part("gated_delta_net", seed=3, width=48, **sizes)
    weights = {name.removeprefix("weights/"): value for name, value in expected.items()}
    layer = DeltaNet(weights, key_heads, value_heads, dim)
    assert apart(layer.run(backend, expected["x"]), expected["out"]) < 3e-6


@pytest.mark.parametrize(
    ("family", "sections", "head_dim", "dims"),
    [
        ("qwen3_5", [11, 11, 10], 256, 64),
        ("qwen3_5", [4, 2, 2], 16, 16),
        ("qwen3_5", [6, 5, 1], 40, 24),
        ("qwen2_vl", [16, 24, 24], 128, 128),
        ("qwen2_vl", [2, 1, 5], 16, 16),
    ],
)
def test_multi_axis_rotation(
    oracle: Oracle, backend: CpuBackend, family: str, sections: list[int], head_dim: int, dims: int
) -> None:
    """A time axis that has more pairs than are left to it takes what no other axis has: extra is time there."""
    sizes = {"sections": sections, "head_dim": head_dim, "dims": dims}
    expected = oracle.transformers_part("rotation", seed=5, family=family, base=1e4, rows=9, **sizes)
    recording = Recording()
    axis = recording.axis("rows", 9)
    x = recording.input("x", axis, 3, head_dim, dtype="f32")
    positions = recording.input("positions", axis, 4)
    dealt = ops.Sections((sections[0], sections[1], sections[2], 0), interleaved=family == "qwen3_5")
    angles = ops.rope_angles(positions, dims, base=1e4, sections=dealt)
    recording.output("out", ops.rope(x, angles, ops.RopeStyle.NEOX))
    program = backend.compile(recording)
    program.inputs["x"][:], program.inputs["positions"][:, :3] = expected["x"], expected["positions"]
    program.inputs["positions"][:, 3] = expected["positions"][:, 0]
    program.run({"rows": 9})
    assert apart(program.output("out"), expected["out"]) < 1e-5
