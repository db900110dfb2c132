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


def test_layer_norm_without_bias(native: CpuBackend, twin: CpuBackend) -> None:
    gain = weight("F32", 70, seed=1)
    agree(native, twin, lambda x: ops.layer_norm(x, gain, None, 1e-5), {"x": activations(5, 70)}, 32)


def test_layer_norm_of_another_width() -> None:
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 1), 8, dtype="f32")
    with pytest.raises(ValueError, match="shape"):
        ops.layer_norm(x, weight("F32", 8), weight("F32", 9), 1e-5)


def test_gelu(native: CpuBackend, twin: CpuBackend) -> None:
    agree(native, twin, ops.gelu, {"x": activations(3, 101) * 4}, 2)
    agree(native, twin, lambda x: ops.gelu_gate(x, ops.scale(x, 0.5)), {"x": activations(3, 101) * 4}, 2)
    agree(native, twin, ops.relu, {"x": activations(3, 101)}, 0)
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


@pytest.mark.parametrize("lengths", [[1, 2], [9, 1, 100], [48, 49, 97, 130]])
@pytest.mark.parametrize("window", [1, 4, 47, 64, 200])
def test_attention_in_a_window(native: CpuBackend, twin: CpuBackend, lengths: Sequence[int], window: int) -> None:
    inputs: dict[str, NDArray[Any]] = {
        name: activations(sum(lengths), 2, 16, seed=seed) for seed, name in enumerate("qkv")
    }
    inputs["texts"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)

    def build(q: ops.Ref, k: ops.Ref, v: ops.Ref, texts: ops.Ref) -> ops.Ref:
        return ops.text_attention(q, k, v, texts, scale=0.25, window=window)

    for backend in (native, twin):
        together = run(backend, build, inputs)
        for text in range(len(lengths)):
            own = inputs["texts"] == text
            alone = run(backend, build, {name: value[own] for name, value in inputs.items()}, capacity=256)
            np.testing.assert_array_equal(alone, together[own])
    np.testing.assert_allclose(run(native, build, inputs), run(twin, build, inputs), atol=40 * EPS)


def test_a_row_sees_its_window_and_no_more(native: CpuBackend, twin: CpuBackend) -> None:
    """With equal scores a row gets the mean of the rows it sees: both ends of the window are inside."""
    rows, window = 200, 5
    zero = np.zeros((rows, 1, 8), np.float32)
    v = zero.copy()
    v[:, 0, 0] = 2.0 ** np.arange(rows).clip(0, 100)

    def build(q: ops.Ref, k: ops.Ref, v: ops.Ref, texts: ops.Ref) -> ops.Ref:
        return ops.text_attention(q, k, v, texts, scale=1.0, window=window)

    inputs: dict[str, NDArray[Any]] = {"q": zero, "k": zero, "v": v, "texts": np.zeros(rows, np.int32)}
    expected = [v[max(0, i - window) : i + window + 1, 0, 0].mean() for i in range(rows)]
    for backend in (native, twin):
        np.testing.assert_allclose(run(backend, build, inputs)[:, 0, 0], expected, rtol=8 * EPS)


def test_a_window_that_is_none() -> None:
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 1), 1, 8, dtype="f32")
    with pytest.raises(ValueError, match="window of -1"):
        ops.text_attention(x, x, x, recording.input("texts", x.axis), scale=1.0, window=-1)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_products_of_rows_as_they_are(native: CpuBackend, twin: CpuBackend, kind: str) -> None:
    """With half-precision weights the rows are not rounded: the result is that of the weights as float32."""
    matrix, x = weight(kind, 33, 70), activations(9, 70)

    def build(x: ops.Ref) -> ops.Ref:
        return ops.linear(x, matrix, rounds=False)

    exact = x.astype(np.float64) @ matrix.float32().astype(np.float64).T
    for backend in (native, twin):
        np.testing.assert_allclose(run(backend, build, {"x": x}), exact, rtol=0, atol=70 * EPS * np.abs(exact).max())


def test_products_that_need_rounded_rows() -> None:
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 1), 64, dtype="f32")
    with pytest.raises(ValueError, match="Q8_0, whose products need rounded"):
        ops.linear(x, weight("Q8_0", 8, 64), rounds=False)


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
