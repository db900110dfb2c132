"""Operations of pictures: native kernels against their torch twins, and a pixel or row whatever is computed with it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.kernels.library import KernelError
from golem_host.ops import Recording, Ref
from ops_checks import activations, agree, run, weight

pytestmark = pytest.mark.skipif(library.load() is None, reason="the native kernels were not built")
EPS = float(np.finfo(np.float32).eps)


@pytest.fixture(scope="module")
def native() -> CpuBackend:
    return CpuBackend(threads=2)


@pytest.fixture(scope="module")
def twin() -> CpuBackend:
    return CpuBackend(threads=1, native=False)


@pytest.mark.parametrize(
    ("height", "width", "into", "out"),
    [(1, 1, 3, 2), (1, 9, 5, 33), (4, 1, 8, 40), (5, 7, 9, 31), (2, 2, 16, 64), (3, 130, 64, 3), (9, 50, 200, 16)],
)
def test_convolution(native: CpuBackend, twin: CpuBackend, height: int, width: int, into: int, out: int) -> None:
    kernel, bias = weight("F32", out, 3, 3, into, seed=1), weight("F32", out, seed=2)
    inputs = {"x": activations(height * width, into)}
    for added in (bias, None):

        def build(x: Ref, added=added) -> Ref:
            return ops.conv2d(x, kernel, added, width=width)

        got, expected = run(native, build, inputs), run(twin, build, inputs)
        # sums of 9 * into products of order one, in another order
        np.testing.assert_allclose(got, expected, atol=8 * EPS * 9 * into)
        other = run(CpuBackend(threads=1), build, inputs)
        np.testing.assert_array_equal(got, other)


def test_a_pixel_is_convolved_with_its_neighbours_alone(native: CpuBackend) -> None:
    width, height = 6, 5
    kernel = weight("F32", 8, 3, 3, 4)
    x = activations(width * height, 4)

    def build(x: Ref) -> Ref:
        return ops.conv2d(x, kernel, width=width)

    before = run(native, build, {"x": x})
    x[2 * width + 3] += 1
    changed = (run(native, build, {"x": x}) != before).any(-1).reshape(height, width)
    assert changed[1:4, 2:5].all() and changed.sum() == 9


def test_convolutions_that_do_not_fit() -> None:
    x = Recording().input("x", Recording().axis("rows", 6), 4, dtype="f32")
    for kernel, width, reason in (
        (weight("F32", 8, 3, 3, 5), 3, "does not take pixels"),
        (weight("F16", 8, 3, 3, 4), 3, "stored as F16"),
        (weight("F32", 8, 3, 3, 4), 4, "no lines of 4"),
    ):
        with pytest.raises(ValueError, match=reason):
            ops.conv2d(x, kernel, width=width)
    with pytest.raises(ValueError, match="8 outputs"):
        ops.conv2d(x, weight("F32", 8, 3, 3, 4), weight("F32", 7), width=3)


def test_lines_that_are_not_whole(native: CpuBackend) -> None:
    recording = Recording()
    x = recording.input("x", recording.axis("rows", 6), 4, dtype="f32")
    recording.output("y", ops.conv2d(x, weight("F32", 8, 3, 3, 4), width=3))
    with pytest.raises(KernelError, match="size"):
        native.compile(recording).run({"rows": 5})


@pytest.mark.parametrize("rows", [1, 47, 130])
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 2, 24), (3, 3, 40), (6, 1, 16)])
def test_full_attention(native: CpuBackend, twin: CpuBackend, rows: int, heads: int, kv_heads: int, dim: int) -> None:
    inputs = {"q": activations(rows, heads, dim, seed=1)}
    inputs |= {name: activations(rows, kv_heads, dim, seed=seed) for seed, name in enumerate("kv", 2)}
    for causal in (False, True):

        def build(q: Ref, k: Ref, v: Ref, causal=causal) -> Ref:
            return ops.full_attention(q, k, v, scale=0.2, causal=causal)

        np.testing.assert_allclose(run(native, build, inputs), run(twin, build, inputs), atol=40 * EPS)


@pytest.mark.parametrize("rows", [1, 45, 300])
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 2, 24), (3, 3, 41), (6, 1, 64)])
def test_coarse_attention(native: CpuBackend, twin: CpuBackend, rows: int, heads: int, kv_heads: int, dim: int) -> None:
    """Within the rounding of its inputs and weights to eight bits, as it is, and the same whoever computes it."""
    inputs = {"q": activations(rows, heads, dim, seed=1)}
    inputs |= {name: activations(rows, kv_heads, dim, seed=seed) for seed, name in enumerate("kv", 2)}

    def build(q: Ref, k: Ref, v: Ref, *, coarse: bool = True) -> Ref:
        return ops.full_attention(q, k, v, scale=dim**-0.5, coarse=coarse)

    found, exact = run(native, build, inputs), run(twin, build, inputs)
    # scores move by a few units of 2^-9 times sums of products of order one, values by one: most of it cancels
    np.testing.assert_allclose(found, exact, atol=4 * 2**-9 * float(np.abs(inputs["v"]).max()))
    np.testing.assert_array_equal(run(CpuBackend(threads=1), build, inputs), found)
    rounds = native.kernels is not None and native.kernels.isa == "avx512-bf16" and dim % 2 == 0
    assert (found != run(native, partial(build, coarse=False), inputs)).any() == rounds


def test_rows_that_see_those_before_them_alone(native: CpuBackend, twin: CpuBackend) -> None:
    """The beginning of a longer sequence, to the bit."""
    whole = {name: activations(100, 2, 24, seed=seed) for seed, name in enumerate("qkv")}

    def build(q: Ref, k: Ref, v: Ref) -> Ref:
        return ops.full_attention(q, k, v, scale=0.2, causal=True)

    for backend in (native, twin):
        together = run(backend, build, whole)
        for rows in (1, 48, 61):
            alone = run(backend, build, {name: value[:rows] for name, value in whole.items()})
            np.testing.assert_array_equal(alone, together[:rows])


def test_attention_over_keys_of_another_axis(native: CpuBackend, twin: CpuBackend) -> None:
    k, v, q = activations(70, 2, 16, seed=1), activations(70, 2, 16, seed=2), activations(5, 4, 16, seed=3)
    found = []
    for backend in (native, twin):
        recording = Recording()
        queries, keys = recording.axis("queries", 5), recording.axis("keys", 80)
        refs = [recording.input("q", queries, 4, 16, dtype="f32")]
        refs += [recording.input(name, keys, 2, 16, dtype="f32") for name in "kv"]
        recording.output("out", ops.full_attention(*refs, scale=0.25))
        program = backend.compile(recording)
        for name, value in (("q", q), ("k", k), ("v", v)):
            program.inputs[name][: len(value)] = value
        program.run({"queries": 5, "keys": 70})
        found.append(program.output("out").copy())
    np.testing.assert_allclose(*found, atol=40 * EPS)


def test_attention_that_does_not_fit() -> None:
    recording = Recording()
    rows, others = recording.axis("rows", 4), recording.axis("others", 4)
    q = recording.input("q", rows, 4, 8, dtype="f32")
    k = recording.input("k", rows, 3, 8, dtype="f32")
    with pytest.raises(ValueError, match="for keys of shape"):
        ops.full_attention(q, k, k, scale=1.0)
    k = recording.input("k", others, 2, 8, dtype="f32")
    with pytest.raises(ValueError, match="rows of the keys' axis"):
        ops.full_attention(q, k, k, scale=1.0, causal=True)


def test_one_row_for_all(native: CpuBackend, twin: CpuBackend) -> None:
    row = weight("F32", 70, seed=1)
    for op in (ops.add_row, ops.multiply_row):
        agree(native, twin, lambda x, op=op: op(x, row), {"x": activations(3, 70)}, 0)
    with pytest.raises(ValueError, match="shape"):
        x = Recording().input("x", Recording().axis("rows", 1), 8, dtype="f32")
        ops.add_row(x, row)


def test_activations_in_float32(native: CpuBackend, twin: CpuBackend) -> None:
    agree(native, twin, ops.float_gelu_tanh, {"x": activations(3, 101) * 4}, 8)
    agree(native, twin, ops.silu, {"x": activations(3, 101) * 4}, 8)
