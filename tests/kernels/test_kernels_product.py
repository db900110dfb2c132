"""Products with every weight type, at every instruction set.

Reference: dequantized weights times what ggml's activation quantization leaves of the input, in float64. What
is left is float32 rounding of sums: at most 1e-7 of (largest weight of the row) * (sum of input magnitudes).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.kernels.library import Act, KernelError, Op
from golem_host.weights.types import GgmlType

TOLERANCE = 1e-7


def reference(weights, quantized, x, kind):
    q = quantized(Act(kind), x)
    result = q.values @ weights.values.T.astype(np.float64)
    if kind == Act.Q8_1:  # offsets are multiplied with sums that were rounded to half
        error = q.sums.astype(np.float64) - q.values.reshape(len(x), -1, 32).sum(-1)
        result += np.repeat(error / 32, 32, -1) @ weights.offsets().T
    bound = TOLERANCE * np.abs(weights.values).max(-1) * np.abs(q.values).sum(-1, keepdims=True)
    return result, bound


def test_matches_reference(runner, weight_type, make_weights, quantized, rng):
    weights = make_weights(rng, weight_type, 83, 768)
    x = rng.standard_normal((7, 768)).astype(np.float32)
    expected, bound = reference(weights, quantized, x, runner.kernels.act_kind(weights.type))
    assert (np.abs(runner.product(weights, x) - expected) <= bound).all()


def test_bias_is_added(runner, weight_type, make_weights, rng):
    weights = make_weights(rng, weight_type, 21, 256)
    x, bias = rng.standard_normal((3, 256)).astype(np.float32), rng.standard_normal(21).astype(np.float32)
    assert np.array_equal(runner.product(weights, x, bias), runner.product(weights, x) + bias)


def test_alone_equals_batched(runner, weight_type, make_weights, rng):
    weights = make_weights(rng, weight_type, 40, 512)
    x = rng.standard_normal((19, 512)).astype(np.float32)
    together = runner.product(weights, x)
    kind = runner.kernels.act_kind(weights.type)
    activations = runner.activations(kind, x)
    for rows in (1, 2, 3, 5, 8, 16):
        cut, apart = np.zeros_like(activations), np.full_like(together, np.nan)
        commands = []
        for at in range(0, 19, rows):
            part = slice(at, at + rows)
            commands.append((Op.ACT, len(x[part]), [cut[part], x[part]], [512, kind]))
            commands.append(
                (Op.MATMUL, len(x[part]), [apart[part], cut[part], weights.packed, None], [40, 512, weights.type])
            )
        runner.run_all(commands)
        assert cut.tobytes() == activations.tobytes()
        assert apart.tobytes() == together.tobytes()


def test_threads_do_not_matter(make_runner, weight_type, make_weights, rng):
    weights = make_weights(rng, weight_type, 531, 512)
    x = rng.standard_normal((5, 512)).astype(np.float32)
    assert len({make_runner(threads).product(weights, x).tobytes() for threads in (1, 2, 3)}) == 1


@pytest.mark.parametrize("height", [7, 40])
def test_few_outputs_of_many_rows_are_shared_by_rows(make_runner, make_weights, rng, height):
    weights = make_weights(rng, "F32", height, 200)
    x = rng.standard_normal((601, 200)).astype(np.float32)
    results = [make_runner(threads).product(weights, x) for threads in (1, 2, 3)]
    assert len({each.tobytes() for each in results}) == 1
    assert results[0][130:133].tobytes() == make_runner(1).product(weights, x[130:133].copy()).tobytes()


def test_quantized_bits_are_the_same_on_every_instruction_set(runner, portable, block_type, make_weights, rng):
    weights = make_weights(rng, block_type, 50, 1024)
    x = (rng.standard_normal((9, 1024)) * rng.uniform(0, 30, (9, 1))).astype(np.float32)
    assert runner.product(weights, x).tobytes() == portable.product(weights, x).tobytes()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(1, 70), blocks=st.integers(1, 5), rows=st.integers(1, 11), seed=st.integers(0, 2**32 - 1))
def test_odd_shapes_stay_in_bounds(
    runner, portable, block_type, make_weights, quantized, guarded, m, blocks, rows, seed
):
    """Weights, activations and results end where a page ends that nobody may read past."""
    rng = np.random.default_rng(seed)
    k = blocks * GgmlType[block_type].block_size
    weights = make_weights(rng, block_type, m, k)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    expected = portable.product(weights, x)
    weights.packed = guarded(weights.packed)
    kind = runner.kernels.act_kind(weights.type)
    out = guarded(np.full((rows, m), np.nan, np.float32))
    activations = guarded(runner.activations(kind, guarded(x)))
    runner.run(Op.MATMUL, rows, [out, activations, weights.packed, None], [m, k, weights.type])
    assert out.tobytes() == expected.tobytes()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["F32", "F16", "BF16"]),
    m=st.integers(1, 40),
    k=st.integers(1, 100),
    rows=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_odd_float_shapes(runner, make_weights, quantized, guarded, name, m, k, rows, seed):
    rng = np.random.default_rng(seed)
    weights = make_weights(rng, name, m, k)
    weights.packed = guarded(weights.packed)
    x = guarded(rng.standard_normal((rows, k)).astype(np.float32))
    out = runner.product(weights, x)
    expected, bound = reference(weights, quantized, x, runner.kernels.act_kind(weights.type))
    assert (np.abs(out - expected) <= bound).all()
    assert runner.product(weights, x[:1].copy()).tobytes() == out[:1].tobytes()


@pytest.mark.parametrize("name", ["F16", "BF16"])
@pytest.mark.parametrize("k", [77, 66, 1100])
def test_rows_that_are_not_rounded(runner, make_weights, quantized, guarded, name, k, rng):
    """Stored or re-laid, one row or more than are taken at a time: float32 rows as they are."""
    m, rows = 37, 130
    weights = make_weights(rng, name, m, k)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    expected, bound = reference(weights, quantized, x, Act.F32)
    laid = np.zeros(runner.kernels.laid_bytes(weights.type, m, k) + 64, np.uint8)
    laid = laid[-laid.ctypes.data % 64 :]
    runner.run(Op.LAY, m, [laid, weights.packed], [k, weights.type])
    alone = b""
    for count in (1, 11, rows):
        for is_laid, packed in enumerate((guarded(weights.packed), laid)):
            out = np.full((count, m), np.nan, np.float32)
            given = guarded(x[:count].copy())
            runner.run(Op.MATMUL, count, [out, given, packed, None], [m, k, weights.type, is_laid, 0, 1])
            assert (np.abs(out - expected[:count]) <= bound[:count]).all()
            alone = alone or out[:1].tobytes()
            assert out[:1].tobytes() == alone


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("k", [33, 96])
def test_float_weights_at_odd_addresses(runner, make_weights, name, k, rng):
    """Files hold them wherever what lies before them ends. The sanitizers see to it that processors may be strict."""
    m, rows = 40, 3
    weights = make_weights(rng, name, m, k)
    x = rng.standard_normal((rows, k), np.float32)
    memory = np.empty(weights.packed.nbytes + 1, np.uint8)
    odd = memory[1 - memory.ctypes.data % 2 :][: weights.packed.nbytes]
    odd[:] = weights.packed.reshape(-1).view(np.uint8)
    results = []
    for packed in (weights.packed, odd):
        laid = np.zeros(runner.kernels.laid_bytes(weights.type, m, k) + 64, np.uint8)
        laid = laid[-laid.ctypes.data % 64 :]
        runner.run(Op.LAY, m, [laid, packed], [k, weights.type])
        for is_laid, place in enumerate((packed, laid)):
            out = np.empty((rows, m), np.float32)
            runner.run(Op.MATMUL, rows, [out, x, place, None], [m, k, weights.type, is_laid, 0, 1])
            results.append(out)
    for each in results:
        np.testing.assert_array_equal(each, results[0])


def test_some_outputs(make_runner, weight_type, make_weights, rng):
    """Those that are asked for have their bits, the others are left alone."""
    m, k, rows = 419, 256, 130
    weights = make_weights(rng, weight_type, m, k)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    for threads in (1, 2):
        runner = make_runner(threads)
        expected = runner.product(weights, x)
        activations = runner.activations(runner.kernels.act_kind(weights.type), x)
        for first, count in ((0, 128), (256, 100), (384, 35)):
            out = np.full((rows, m), np.nan, np.float32)
            ints = [m, k, weights.type, 0, 0, 0, first, count]
            runner.run(Op.MATMUL, rows, [out, activations, weights.packed, None], ints)
            assert out[:, first : first + count].tobytes() == expected[:, first : first + count].tobytes()
            assert np.isnan(out[:, :first]).all() and np.isnan(out[:, first + count :]).all()
    for first, count in ((-128, 128), (0, m + 1), (384, 36), (0, -1)):
        with pytest.raises(KernelError, match="size"):
            runner.run(
                Op.MATMUL, rows, [out, activations, weights.packed, None], [m, k, weights.type, 0, 0, 0, first, count]
            )


def test_quantized_types_need_rounded_rows(runner):
    with pytest.raises(KernelError, match="type"):
        runner.run(Op.MATMUL, 1, [np.zeros(4096, np.uint8)] * 3 + [None], [8, 32, 2, 0, 0, 1])


def test_extreme_codes_do_not_overflow(runner, portable, block_type, make_weights, rng):
    """All weights and activations at the ends of their ranges."""
    weights = make_weights(rng, block_type, 16, 512)
    scales = weights.packed.copy()
    for fill in (0x00, 0x7F, 0x80, 0xFF):
        weights.packed = _with_codes(block_type, scales, fill)
        for sign in (1, -1):
            x = np.full((2, 512), sign, np.float32)
            x[1, ::2] *= -1
            result = runner.product(weights, x)
            assert np.isfinite(result).all()
            assert result.tobytes() == portable.product(weights, x).tobytes()


def _with_codes(block_type, packed, fill):
    size = GgmlType[block_type].block_bytes
    scales = {"Q2_K": (80, 84), "Q3_K": (108, 110), "Q6_K": (208, 210), "MXFP4": (0, 1)}
    scales |= {"TQ1_0": (52, 54), "TQ2_0": (64, 66), "PTQ1_0": (26, 28)}
    first, last = scales.get(block_type, (0, 4 if block_type in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else 2))
    filled = np.full((len(packed), packed.shape[1] // size, size), fill, np.uint8)
    filled[:, :, first:last] = packed.reshape(filled.shape)[:, :, first:last]
    return filled.reshape(packed.shape)


@pytest.mark.parametrize("exponent", [0, 127, 255])
def test_any_exponent_of_mxfp4(runner, make_weights, rng, exponent):
    """Scales from denormal to overflowing; 255 is a power of two like the others."""
    unit = 127 * np.eye(32, dtype=np.float32)  # its activations are 127 times a scale of 1
    with np.errstate(over="ignore"):
        weights = make_weights(rng, "MXFP4", 24, 32, exponent)
        assert np.array_equal(runner.product(weights, unit), 127 * weights.values.T)


def test_a_value_that_is_not_finite_shows(runner, weight_type, make_weights, rng):
    weights = make_weights(rng, weight_type, 16, 256)
    x = rng.standard_normal((3, 256)).astype(np.float32)
    x[1, 100] = np.nan
    result = runner.product(weights, x)
    assert np.isnan(result[1]).all()
    assert np.isfinite(result[[0, 2]]).all()


@pytest.mark.parametrize(
    ("m", "k", "kind", "code"),
    [(8, 33, 2, "size"), (0, 32, 2, "size"), (8, -32, 2, "size"), (8, 32, 99, "type"), (8, 32, 9, "type")],
)
def test_refuses_what_it_cannot_multiply(runner, m, k, kind, code):
    out, x, w = (np.zeros(4096, np.uint8) for _ in range(3))
    with pytest.raises(KernelError, match=code):
        runner.run(Op.MATMUL, 1, [out, x, w, None], [m, k, kind])


def test_refuses_missing_pointers(runner):
    with pytest.raises(KernelError, match="pointer"):
        runner.run(Op.MATMUL, 1, [np.zeros(8, np.float32), None, None, None], [8, 32, 2])
