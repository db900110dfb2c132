"""Operations over packed texts: native kernels against their torch twins, a text alone against one in company."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.kernels.library import KernelError
from golem_host.ops import Recording
from ops_checks import activations, agree, run, weight

pytestmark = pytest.mark.skipif(library.load() is None, reason="the native kernels were not built")
EPS = float(np.finfo(np.float32).eps)


@pytest.fixture(scope="module")
def native() -> CpuBackend:
    return CpuBackend(threads=2)


@pytest.fixture(scope="module")
def twin() -> CpuBackend:
    return CpuBackend(threads=1, native=False)


@pytest.mark.parametrize("width", [1, 31, 384])
def test_layer_norm(native: CpuBackend, twin: CpuBackend, width: int) -> None:
    gain, bias = weight("F32", width, seed=1), weight("F32", width, seed=2)
    agree(native, twin, lambda x: ops.layer_norm(x, gain, bias, 1e-5), {"x": activations(5, width)}, 32)


def test_layer_norm_of_another_width() -> None:
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 1), 8, dtype="f32")
    with pytest.raises(ValueError, match="shape"):
        ops.layer_norm(x, weight("F32", 8), weight("F32", 9), 1e-5)


def test_gelu(native: CpuBackend, twin: CpuBackend) -> None:
    agree(native, twin, ops.gelu, {"x": activations(3, 101) * 4}, 2)
    agree(native, twin, ops.gelu_tanh, {"x": activations(3, 101) * 4}, 2**13)  # a unit of half precision


@pytest.mark.parametrize("lengths", [[1], [3, 1, 40], [100, 5, 5]])
@pytest.mark.parametrize("dim", [7, 64])
def test_attention(native: CpuBackend, twin: CpuBackend, lengths: Sequence[int], dim: int) -> None:
    inputs: dict[str, NDArray[Any]] = {
        name: activations(sum(lengths), 3, dim, seed=seed) for seed, name in enumerate("qkv")
    }
    inputs["texts"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)

    def build(q: ops.Ref, k: ops.Ref, v: ops.Ref, texts: ops.Ref) -> ops.Ref:
        return ops.text_attention(q, k, v, texts, scale=dim**-0.5)

    for backend in (native, twin):
        together = run(backend, build, inputs)
        for text in range(len(lengths)):
            own = inputs["texts"] == text
            alone = run(backend, build, {name: value[own] for name, value in inputs.items()}, capacity=128)
            np.testing.assert_array_equal(alone, together[own])
    np.testing.assert_allclose(run(native, build, inputs), run(twin, build, inputs), atol=40 * EPS)


def test_attention_of_unlike_shapes() -> None:
    recording = Recording()
    axis = recording.axis("rows", 2)
    q, k = recording.input("q", axis, 2, 8, dtype="f32"), recording.input("k", axis, 1, 8, dtype="f32")
    with pytest.raises(ValueError, match="shapes"):
        ops.text_attention(q, k, k, recording.input("texts", axis), scale=1.0)


def means(backend: CpuBackend, x: np.ndarray, first: Sequence[int], count: Sequence[int]) -> np.ndarray:
    recording = Recording()
    rows, texts = recording.axis("rows", 64), recording.axis("texts", 8)
    source = recording.input("x", rows, x.shape[1], dtype="f32")
    recording.output("out", ops.mean(source, recording.input("first", texts), recording.input("count", texts)))
    program = backend.compile(recording)
    program.inputs["x"][: len(x)] = x
    program.inputs["first"][: len(first)] = first
    program.inputs["count"][: len(first)] = count
    program.run({"rows": len(x), "texts": len(first)})
    return program.output("out").copy()


def test_means(native: CpuBackend, twin: CpuBackend) -> None:
    x = activations(30, 50)
    out = means(native, x, [0, 4, 29], [30, 9, 1])
    np.testing.assert_array_equal(out, means(twin, x, [0, 4, 29], [30, 9, 1]))
    np.testing.assert_array_equal(out[1:2], means(native, x[4:13], [0], [9]))


def test_means_of_rows_that_are_not_live(native: CpuBackend, twin: CpuBackend) -> None:
    for backend, error in ((native, KernelError), (twin, IndexError)):
        with pytest.raises(error):
            means(backend, activations(30, 50), [25], [6])
