"""Re-laid weights and products that run together: the bits are those of a product of rows as a file stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.kernels.library import KernelError, Op
from golem_host.weights.types import GgmlType

Q4_0 = 2
FLOATS = ("F32", "F16", "BF16")


def aligned(array):
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + array.nbytes] = array.reshape(-1)
    return memory[start : start + array.nbytes].reshape(array.shape)


def lay(runner, weights, k, copy=aligned):
    """The re-laid weights, 64-byte aligned; None where the instruction set has no layout of its own and refuses."""
    m = len(weights.packed)
    size = runner.kernels.laid_bytes(weights.type, m, k)
    if not size:
        with pytest.raises(KernelError, match="not supported"):
            runner.run(Op.LAY, m, [weights.packed.copy(), weights.packed], [k, weights.type])
        return None
    laid = copy(np.full(size, 0xAA, np.uint8))
    assert laid.ctypes.data % 64 == 0
    runner.run(Op.LAY, m, [laid, copy(weights.packed)], [k, weights.type])
    return laid


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(1, 70), blocks=st.integers(1, 5), rows=st.integers(1, 19), seed=st.integers(0, 2**32 - 1))
def test_laid_equals_stored(runner, weight_type, make_weights, guarded, m, blocks, rows, seed):
    rng = np.random.default_rng(seed)
    k = blocks * (GgmlType[weight_type].block_size if weight_type not in FLOATS else 67)
    weights = make_weights(rng, weight_type, m, k)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    bias = guarded(rng.standard_normal(m).astype(np.float32))
    expected = runner.product(weights, x, bias)
    laid = lay(runner, weights, k, guarded)
    if laid is None:
        return
    out = guarded(np.full((rows, m), np.nan, np.float32))
    activations = runner.activations(runner.kernels.act_kind(weights.type), x)
    runner.run(Op.MATMUL, rows, [out, activations, laid, bias], [m, k, weights.type, 1])
    assert out.tobytes() == expected.tobytes()


def test_threads_do_not_matter(make_runner, weight_type, make_weights, rng):
    weights = make_weights(rng, weight_type, 1000, 1024)
    laid = [lay(make_runner(threads), weights, 1024) for threads in (1, 2, 3)]
    assert len({None if each is None else each.tobytes() for each in laid}) == 1


def test_many_rows_of_floats(runner, make_weights, rng):
    """More rows than are taken between two looks at the weights, more inputs than are summed at once."""
    for name in FLOATS:
        weights = make_weights(rng, name, 37, 300)
        x = rng.standard_normal((250, 300)).astype(np.float32)
        laid = lay(runner, weights, 300)
        out = np.full((250, 37), np.nan, np.float32)
        activations = runner.activations(runner.kernels.act_kind(weights.type), x)
        runner.run(Op.MATMUL, 250, [out, activations, laid, None], [37, 300, weights.type, 1])
        assert out.tobytes() == runner.product(weights, x).tobytes()
        assert out[241:242].tobytes() == runner.product(weights, x[241:242]).tobytes()


def test_a_type_that_is_none(runner):
    assert runner.kernels.laid_bytes(99, 16, 64) == 0
    with pytest.raises(KernelError, match="not supported"):
        runner.run(Op.LAY, 16, [np.zeros(4096, np.uint8), np.zeros(4096, np.uint8)], [64, 99])


@pytest.mark.parametrize(("m", "k"), [(0, 32), (-1, 32), (8, 33), (8, 0), (1 << 41, 32)])
def test_sizes_that_cannot_be(runner, m, k):
    assert runner.kernels.laid_bytes(Q4_0, m, k) == 0


def test_products_run_together(make_runner, make_weights, rng):
    """Three matrices of different types and heights over two inputs, on 1 to 3 threads."""
    k, rows = 512, 3
    x = rng.standard_normal((rows, k)).astype(np.float32)
    matrices = [make_weights(rng, name, m, k) for name, m in (("Q4_K", 300), ("Q8_0", 5), ("F16", 1200))]
    for threads in (1, 2, 3):
        runner = make_runner(threads)
        outs = [np.empty((rows, len(w.packed)), np.float32) for w in matrices]
        inputs = [runner.activations(runner.kernels.act_kind(w.type), x) for w in matrices]
        commands: list[tuple[Any, ...]] = [
            (Op.MATMUL, rows, [out, a, w.packed], [len(w.packed), k, w.type, 0, 1])
            for out, a, w in zip(outs, inputs, matrices, strict=True)
        ]
        commands.append((Op.SCALE, rows, [outs[1], outs[1]], [5], [2.0]))
        runner.run_all(commands)
        expected = [runner.product(w, x) for w in matrices]
        expected[1] *= 2
        for out, want in zip(outs, expected, strict=True):
            assert out.tobytes() == want.tobytes()


def test_float_rows_a_page_apart(make_runner, make_weights, rng):
    """Two inputs of 4,096 bytes a row and one of another size, of which copies are taken: the bits are those alone."""
    shapes = [("BF16", 70, 1024, 0), ("F32", 33, 1024, 0), ("F32", 40, 1024, 1), ("F16", 9, 1030, 2)]
    matrices = [make_weights(rng, name, m, k) for name, m, k, _ in shapes]
    inputs = [rng.standard_normal((21, k)).astype(np.float32) for k in (1024, 1024, 1030)]
    for threads in (1, 2, 3):
        runner = make_runner(threads)
        outs = [np.full((21, m), np.nan, np.float32) for _, m, _, _ in shapes]
        rows: list[tuple[Any, ...]] = [
            (Op.MATMUL, 21, [out, inputs[x], w.packed], [m, k, w.type, 0, 1, 1])
            for out, w, (_, m, k, x) in zip(outs, matrices, shapes, strict=True)
        ]
        rows.append((Op.SCALE, 21, [outs[3], outs[3]], [9], [1.0]))
        kept = [each.copy() for each in inputs]
        runner.run_all(rows)
        for out, w, (_, m, k, x) in zip(outs, matrices, shapes, strict=True):
            for row in (0, 20):
                alone = np.full((1, m), np.nan, np.float32)
                runner.run(
                    Op.MATMUL, 1, [alone, inputs[x][row : row + 1].copy(), w.packed, None], [m, k, w.type, 0, 0, 1]
                )
                assert out[row].tobytes() == alone.tobytes()
        assert all(np.array_equal(now, then) for now, then in zip(inputs, kept, strict=True))


def test_one_of_them_fails(runner, make_weights, rng):
    """The command that is wrong is named; none of those it would have run with has run."""
    weights = make_weights(rng, "Q8_0", 32, 64)
    out = np.full((1, 32), np.nan, np.float32)
    a = runner.activations(runner.kernels.act_kind(weights.type), np.ones((1, 64), np.float32))
    with pytest.raises(KernelError, match="size") as failed:
        runner.run_all(
            [
                (Op.MATMUL, 1, [out, a, weights.packed], [32, 64, weights.type, 0, 1]),
                (Op.MATMUL, 1, [out, a, weights.packed], [32, 65, weights.type, 0, 1]),
            ]
        )
    assert failed.value.command_index == 1
    assert np.isnan(out).all()
