"""Norms, rotations, gates and moves against numpy.

Tolerances are a few float32 roundings of the values involved, stated at each test.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from golem_host.kernels.library import GateKind, KernelError, Op, RopeAxes, RopeStyle

EPS = float(np.finfo(np.float32).eps)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("n", [1, 7, 64, 577])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(runner, rng, n, weighted):
    """3 roundings."""
    x, weight = floats(rng, 5, 3, n), floats(rng, n) if weighted else None
    out = np.empty_like(x)
    runner.run(Op.RMS_NORM, 5, [out, x, weight], [n, 3], [1e-5])
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * (1 if weight is None else weight)
    assert np.allclose(out, expected, rtol=4 * EPS, atol=0)
    runner.run(Op.RMS_NORM, 5, [x, x, weight], [n, 3], [1e-5])
    assert np.array_equal(out, x)


@pytest.mark.parametrize(("n", "groups", "width"), [(1, 1, 1), (7, 3, 21), (24, 4, 131), (128, 32, 8192)])
def test_l2_norm(runner, rng, n, groups, width):
    """2 roundings; what is past the groups passes through."""
    x, out = floats(rng, 3, width), np.empty((3, width), np.float32)
    runner.run(Op.L2_NORM, 3, [out, x], [n, groups, width], [1e-3])
    heads = x[:, : groups * n].reshape(3, groups, n).astype(np.float64)
    expected = heads / np.sqrt((heads**2).sum(-1, keepdims=True) + 1e-3)
    assert np.allclose(out[:, : groups * n].reshape(3, groups, n), expected, rtol=4 * EPS, atol=0)
    assert np.array_equal(out[:, groups * n :], x[:, groups * n :])
    runner.run(Op.L2_NORM, 3, [x, x], [n, groups, width], [1e-3])
    assert np.array_equal(out, x)


@pytest.mark.parametrize("block", [1, 2, 8, 32, 64, 256, 4096])
def test_hadamard(runner, rng, block):
    """The bits of sums and differences in their usual order, on every instruction set."""
    x, out = floats(rng, 3, 2 * block), np.empty((3, 2 * block), np.float32)
    runner.run(Op.HADAMARD, 3, [out, x, None], [2 * block, block, 0, 1, 1])
    apart = 1
    while apart < block:
        a, b = x.reshape(-1, 2, apart).swapaxes(0, 1)
        x, apart = np.stack([a + b, a - b], 1), 2 * apart
    assert np.array_equal(out, x.reshape(3, -1) * np.float32(1 / np.sqrt(block)))


def test_decay(runner, rng):
    """The rate times a softplus with a few roundings, so that its exponential has as many of its argument."""
    x, rate, bias = floats(rng, 5, 48) * 12, -np.abs(floats(rng, 48)), floats(rng, 48)
    out = np.empty_like(x)
    runner.run(Op.DECAY, 5, [out, x, rate, bias], [48])
    argument = rate.astype(np.float64) * np.logaddexp(0, x.astype(np.float64) + bias)
    assert np.allclose(out, np.exp(argument), rtol=0, atol=8 * EPS)
    assert (np.abs(out - np.exp(argument)) <= 8 * EPS * (1 + np.abs(argument)) * np.exp(argument)).all()
    runner.run(Op.DECAY, 5, [x, x, rate, bias], [48])
    assert np.array_equal(out, x)


def angles_of(runner, positions, n_rot, factors=None, original=0, base=10000.0, scale=1.0, yarn=(0.0, 1.0, 32.0, 1.0)):
    out = np.empty((len(positions), n_rot // 2, 2), np.float32)
    runner.run(Op.ROPE_ANGLES, len(positions), [out, positions, factors], [n_rot, original], [base, scale, *yarn])
    return out


def thetas(positions, n_rot, base):
    """Repeated float32 products, as ggml makes them."""
    theta, step = positions.astype(np.float32), np.float32(base) ** np.float32(-2.0 / n_rot)
    columns = []
    for _ in range(n_rot // 2):
        columns.append(theta)
        theta = theta * step
    return np.stack(columns, -1)


def test_rope_angles(runner):
    """cos and sin of an angle with one rounding: absolute error of angle * eps + eps."""
    positions = np.array([0, 1, 2, 100, 8191, 200_000], np.int32)
    angle = thetas(positions, 64, 10000.0).astype(np.float64)
    out = angles_of(runner, positions, 64)
    bound = (2 * np.abs(angle) * 32 + 2) * EPS
    assert (np.abs(out[..., 0] - np.cos(angle)) <= bound).all()
    assert (np.abs(out[..., 1] - np.sin(angle)) <= bound).all()


def test_rope_angles_divided_and_scaled(runner):
    positions = np.array([0, 5, 77], np.int32)
    factors = np.linspace(1, 8, 16, dtype=np.float32)
    out = angles_of(runner, positions, 32, factors, base=500000.0, scale=0.25)
    angle = thetas(positions, 32, 500000.0).astype(np.float64) / factors * 0.25
    assert np.allclose(out, np.stack([np.cos(angle), np.sin(angle)], -1), rtol=0, atol=1e-4)


def test_rope_angles_yarn(runner):
    """YaRN (arXiv 2309.00071) with factor 8 from 4096: fast pairs unscaled, slow pairs interpolated, a ramp between."""
    positions, n, base, factor, original = np.array([3, 1000], np.int32), 64, 10000.0, 8.0, 4096
    out = angles_of(runner, positions, n, None, original, base, 1 / factor, (1.0, 0.9, 32.0, 1.0))
    low = np.floor(n * np.log(original / (32 * 2 * np.pi)) / (2 * np.log(base)))
    high = np.ceil(n * np.log(original / (1 * 2 * np.pi)) / (2 * np.log(base)))
    assert 0 < low < high < n / 2
    interpolated = np.clip((np.arange(n // 2) - low) / (high - low), 0, 1)
    theta = thetas(positions, n, base).astype(np.float64)
    angle = theta / factor * interpolated + theta * (1 - interpolated)
    magnitude = 0.9 * (1 + 0.1 * np.log(factor))
    assert np.allclose(out, magnitude * np.stack([np.cos(angle), np.sin(angle)], -1), rtol=0, atol=3e-4)


def axis_of(kind, sections, pair):
    """llama.cpp's `ggml_mrope_cache_init`."""
    pair %= sum(sections)
    if kind is RopeAxes.INTERLEAVED:
        return pair % 3 if pair < 3 * sections[pair % 3] else 3
    return int(np.searchsorted(np.cumsum(sections), pair, side="right"))


@pytest.mark.parametrize("kind", [RopeAxes.SECTIONED, RopeAxes.INTERLEAVED])
@pytest.mark.parametrize("sections", [(11, 11, 10, 0), (16, 24, 24, 0), (1, 2, 3, 4), (0, 0, 0, 1), (5, 0, 2, 9)])
def test_rope_angles_of_several_axes(runner, rng, kind, sections):
    """Each pair has the bits it has when all axes stand where its own axis does."""
    positions, pairs = rng.integers(0, 3000, (4, 4), dtype=np.int32), 70
    out = np.empty((4, pairs, 2), np.float32)
    factors = np.linspace(1, 4, pairs, dtype=np.float32)
    runner.run(Op.ROPE_ANGLES, 4, [out, positions, factors], [140, 0, kind, *sections], [1e4, 0.5, 0, 1.5, 32, 1])
    plain = [
        angles_of(runner, np.ascontiguousarray(row), 140, factors, scale=0.5, yarn=(0, 1.5, 32, 1))
        for row in positions.T
    ]
    for pair in range(pairs):
        assert np.array_equal(out[:, pair], plain[axis_of(kind, sections, pair)][:, pair])


@pytest.mark.parametrize("style", RopeStyle)
@pytest.mark.parametrize("n_rot", [2, 24, 40])
def test_rope(runner, rng, style, n_rot):
    """Two products and a sum: 3 roundings of |x|."""
    x, angles = floats(rng, 6, 3, 40), floats(rng, 6, n_rot // 2, 2)
    out = np.empty_like(x)
    runner.run(Op.ROPE, 6, [out, x, angles], [3, 40, n_rot, style])
    c, s = angles[:, None, :, 0].astype(np.float64), angles[:, None, :, 1].astype(np.float64)
    expected = x.astype(np.float64)
    first = slice(0, n_rot, 2) if style is RopeStyle.NORM else slice(0, n_rot // 2)
    second = slice(1, n_rot, 2) if style is RopeStyle.NORM else slice(n_rot // 2, n_rot)
    a, b = expected[..., first].copy(), expected[..., second].copy()
    expected[..., first], expected[..., second] = a * c - b * s, a * s + b * c
    assert np.allclose(out, expected, rtol=0, atol=3 * EPS * np.abs(x).max() * np.abs(angles).max())
    assert np.array_equal(out[..., n_rot:], x[..., n_rot:])
    runner.run(Op.ROPE, 6, [x, x, angles], [3, 40, n_rot, style])
    assert np.array_equal(out, x)


def gated(runner, kind, gate, up):
    out = np.empty_like(gate)
    runner.run(Op.GATE, len(gate), [out, gate, up], [gate.shape[1], kind])
    return out


def test_silu_gate(runner, rng):
    """exp within 2 ulp, then 3 roundings."""
    gate, up = floats(rng, 3, 131) * 20, floats(rng, 3, 131)
    gate[0, :5] = [0, -200, 200, -87.5, 88.5]
    wide = gate.astype(np.float64)
    expected = wide / (1 + np.exp(-wide)) * up
    assert np.allclose(gated(runner, GateKind.SILU, gate, up), expected, rtol=8 * EPS, atol=1e-34)


def test_sigmoid_gate(runner, rng):
    """exp within 2 ulp, then 3 roundings; without a factor it is one."""
    gate, up = floats(rng, 3, 131) * 20, floats(rng, 3, 131)
    gate[0, :5] = [0, -200, 200, -np.inf, np.inf]
    expected = 1 / (1 + np.exp(-gate.astype(np.float64)))
    assert np.allclose(gated(runner, GateKind.SIGMOID, gate, up), expected * up, rtol=8 * EPS, atol=1e-34)
    out = np.empty_like(gate)
    runner.run(Op.GATE, 3, [out, gate, None], [131, GateKind.SIGMOID])
    assert np.allclose(out, expected, rtol=8 * EPS, atol=1e-34)
    runner.run(Op.GATE, 3, [gate, gate, None], [131, GateKind.SIGMOID])
    assert np.array_equal(out, gate)


def test_exact_gelu(runner, rng):
    """Within a few units in the last place where x is positive, and of the small values where it is not."""
    x = np.concatenate([floats(rng, 1, 400) * 3, np.linspace(-9, 9, 401, dtype=np.float32)[None, :400]])
    x[0, :3] = [0, 100, np.nan]
    expected = [[0.5 * v * math.erfc(-v / math.sqrt(2)) for v in row] for row in x.tolist()]
    out = gated(runner, GateKind.GELU_ERF, x, np.ones_like(x))
    # e^(-x^2/2) has the rounding of its exponent, half of which is x^2's
    assert np.allclose(out, expected, rtol=90 * EPS, atol=1e-34, equal_nan=True)
    positive = x > 0
    assert np.allclose(out[positive], np.asarray(expected)[positive], rtol=4 * EPS)


def test_elu(runner, rng):
    """e^x - 1 within 2 ulp of itself, also of small values."""
    x = np.concatenate([floats(rng, 1, 400) * 3, -np.logspace(-30, 2.5, 400, dtype=np.float32)[None]])
    x[0, :5] = [0, 100, -100, -np.inf, np.nan]
    expected = np.where(x > 0, x, np.expm1(np.minimum(x, 0).astype(np.float64)))
    assert np.allclose(gated(runner, GateKind.ELU, x, np.ones_like(x)), expected, rtol=3 * EPS, atol=0, equal_nan=True)


def test_gelu_gate_goes_through_half(runner):
    """Every half: one step of half precision, and the float32 rounding of 1 + tanh, which is near 0 for x < 0."""
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    gate = every.astype(np.float32)[None]
    out = gated(runner, GateKind.GELU_TANH, gate, np.ones_like(gate))
    inside = np.abs(gate) < 10
    assert np.array_equal(out[~inside], np.maximum(gate[~inside], 0))
    wide = gate[inside].astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * wide * (1 + 0.044715 * wide * wide)))
    bound = np.spacing(np.abs(exact).astype(np.float16)) + EPS * np.abs(wide)
    assert (np.abs(out[inside] - exact) <= bound).all()
    assert np.array_equal(out, out.astype(np.float16))


def test_gelu_gate_rounds_its_input_to_half(runner):
    gate = np.array([[0.50001, 1.23456789, 9.9999]], np.float32)
    rounded = gate.astype(np.float16).astype(np.float32)
    one = np.ones_like(gate)
    assert np.array_equal(gated(runner, GateKind.GELU_TANH, gate, one), gated(runner, GateKind.GELU_TANH, rounded, one))


@pytest.mark.parametrize("kind", GateKind)
def test_gate_may_work_in_place_and_shows_nan(runner, rng, kind):
    gate, up = floats(rng, 4, 37), floats(rng, 4, 37)
    gate[1, 3], gate[2, 0], gate[2, 1] = np.nan, -np.inf, np.inf
    expected = gated(runner, kind, gate, up)
    assert np.isnan(expected[1, 3])
    assert np.isnan(expected).sum() <= 2  # silu(-inf) is NaN in floats
    for target in (0, 1):
        inputs = [gate.copy(), up.copy()]
        runner.run(Op.GATE, 4, [inputs[target], *inputs], [37, kind])
        assert inputs[target].tobytes() == expected.tobytes()


@pytest.mark.parametrize(("op", "function"), [(Op.ADD, np.add), (Op.MUL, np.multiply)])
def test_add_and_mul(runner, rng, op, function):
    a, b, row = floats(rng, 6, 45), floats(rng, 6, 45), floats(rng, 45)
    out = np.empty_like(a)
    runner.run(op, 6, [out, a, b], [45, 0])
    assert np.array_equal(out, function(a, b))
    runner.run(op, 6, [out, a, row], [45, 1])
    assert np.array_equal(out, function(a, row))
    expected = function(a, b)
    runner.run(op, 6, [b, a, b], [45, 0])
    assert np.array_equal(b, expected)


def test_scale_and_copy(runner, rng):
    x, out = floats(rng, 3, 21), np.empty((3, 21), np.float32)
    runner.run(Op.SCALE, 3, [out, x], [21], [0.3])
    assert np.array_equal(out, x * np.float32(0.3))
    runner.run(Op.COPY, 3, [out, x], [21])
    assert np.array_equal(out, x)


@pytest.mark.parametrize(("first", "n"), [(0, 5), (3, 4), (6, 1)])
def test_copy_of_a_part_of_each_group(runner, rng, guarded, first, n):
    x, out = guarded(floats(rng, 4, 3, 7)), guarded(np.zeros((4, 3, n), np.float32))
    runner.run(Op.COPY, 4, [out, x], [n, 3, 7, first])
    assert np.array_equal(out, x[..., first : first + n])


@pytest.mark.parametrize("cap", [1.0, 30.0])
def test_softcap(runner, rng, cap):
    """tanh within 4 ulp."""
    x = floats(rng, 2, 1001) * np.float32(cap) * np.array([[0.3], [10]], np.float32)
    out = np.empty_like(x)
    runner.run(Op.SOFTCAP, 2, [out, x], [1001], [cap])
    assert np.allclose(out, cap * np.tanh(x.astype(np.float64) / cap), rtol=6 * EPS, atol=0)


def test_temperature(runner, rng):
    """Exactly what the formula gives in double; a position before the first fails the command."""
    x, positions, out = floats(rng, 4, 21), np.array([0, 9, 10, 2**31 - 1], np.int32), np.zeros((4, 21), np.float32)
    runner.run(Op.TEMPERATURE, 4, [out, x, positions], [21, 10], [0.1])
    factors = 1 + np.float64(np.float32(0.1)) * np.log(positions // 10 + 1.0)
    assert np.array_equal(out, x * factors.astype(np.float32)[:, None])
    out[:], positions[1] = 0, -1
    with pytest.raises(KernelError, match="position"):
        runner.run(Op.TEMPERATURE, 4, [out, x, positions], [21, 10], [0.1])
    assert not out.any()


def test_rows(runner, weight_type, make_weights, rng):
    """Exactly gguf-py's values."""
    weights = make_weights(rng, weight_type, 9, 512)
    ids = np.array([8, 0, 3, 3], np.int32)
    out = np.empty((4, 512), np.float32)
    stride = weights.packed.shape[1]
    runner.run(Op.ROWS, 4, [out, ids, weights.packed], [512, weights.type, stride, 9])
    assert np.array_equal(out, weights.values[ids])


@pytest.mark.parametrize("bad", [-1, 9, 2**31 - 1])
def test_rows_outside_the_table_write_nothing(runner, make_weights, rng, bad):
    weights = make_weights(rng, "Q4_1", 9, 64)
    out = np.zeros((2, 64), np.float32)
    with pytest.raises(KernelError, match="id"):
        runner.run(Op.ROWS, 2, [out, np.array([1, bad], np.int32), weights.packed], [64, 3, 40, 9])
    assert not out.any()


def test_select(runner, rng):
    x, index, out = floats(rng, 5, 33), np.array([4, 0, 0], np.int32), np.zeros((3, 33), np.float32)
    runner.run(Op.SELECT, 3, [out, x, index], [33, -1, 5])
    assert np.array_equal(out, x[index])
    out[:] = 0
    with pytest.raises(KernelError, match="index"):
        runner.run(Op.SELECT, 3, [out, x, index], [33, -1, 4])
    assert not out.any()


def test_select_counts_the_live_rows_of_its_source(runner, rng):
    x, index, out = floats(rng, 5, 8), np.array([3], np.int32), np.zeros((1, 8), np.float32)
    cmds = runner.command(Op.SELECT, 1, [out, x, index], [8, 0])
    runner.pool.run(cmds, 1, runner.kernels.ffi.new("int64_t[]", [4]))
    assert np.array_equal(out[0], x[3])
    with pytest.raises(KernelError, match="index"):
        runner.pool.run(cmds, 1, runner.kernels.ffi.new("int64_t[]", [3]))


@pytest.mark.parametrize(
    ("op", "ints", "constants", "text"),
    [
        (Op.ROWS, [33, 2, 18, 4], [], "size"),
        (Op.ROWS, [32, 2, 17, 4], [], "size"),
        (Op.ROWS, [32, 4, 18, 4], [], "type"),
        (Op.RMS_NORM, [0, 1], [], "size"),
        (Op.RMS_NORM, [8, 0], [], "size"),
        (Op.ROPE_ANGLES, [3, 0], [1e4, 1], "size"),
        (Op.ROPE_ANGLES, [4, 0], [0, 1], "size"),
        (Op.ROPE_ANGLES, [4, 0], [1e4, 1, 1, 1, 32, 1], "size"),
        (Op.ROPE, [1, 4, 6, 0], [], "size"),
        (Op.ROPE, [1, 4, 3, 0], [], "size"),
        (Op.ROPE, [1, 4, 4, 2], [], "type"),
        (Op.ROPE_ANGLES, [8, 0, 3, 1, 1, 1, 1], [1e4, 1], "type"),
        (Op.ROPE_ANGLES, [8, 0, 1, 0, 0, 0, 0], [1e4, 1], "size"),
        (Op.ROPE_ANGLES, [8, 0, 2, 2, 2, 1, 0], [1e4, 1], "size"),
        (Op.ROPE_ANGLES, [8, 0, 2, 2, -1, 1, 0], [1e4, 1], "size"),
        (Op.L2_NORM, [4, 3, 11], [0], "size"),
        (Op.L2_NORM, [4, 0, 8], [0], "size"),
        (Op.DECAY, [0], [], "size"),
        (Op.HADAMARD, [48, 12, 0, 1, 1], [], "size"),
        (Op.HADAMARD, [48, 32, 0, 1, 1], [], "size"),
        (Op.HADAMARD, [8192, 8192, 0, 1, 1], [], "size"),
        (Op.HADAMARD, [48, 0, 0, 1, 1], [], "size"),
        (Op.HADAMARD, [48, 16, 2, 1, 1], [], "size"),
        (Op.HADAMARD, [48, 16, 0, 5, 3], [], "size"),
        (Op.HADAMARD, [48, 16, 0, 2**32, 2**32], [], "size"),
        (Op.HADAMARD, [48, 16, 0, 0, 1], [], "size"),
        (Op.COPY, [4, 2, 8, 5], [], "size"),
        (Op.COPY, [4, 2, 3, 0], [], "size"),
        (Op.COPY, [4, -1, 8, 0], [], "size"),
        (Op.COPY, [4, 1, 8, -1], [], "size"),
        (Op.GATE, [8, 7], [], "type"),
        (Op.GATE, [8, -1], [], "type"),
        (Op.LAYER_NORM, [0], [], "size"),
        (Op.ADD, [8, 2], [], "size"),
        (Op.MUL, [-1, 0], [], "size"),
        (Op.SOFTCAP, [8], [0], "size"),
        (Op.SCALE, [2**60], [1], "size"),
        (Op.TEMPERATURE, [8, 0], [1], "size"),
        (Op.TEMPERATURE, [8, 2**31], [1], "size"),
        (Op.FULL_ATTN, [3, 2, 8, -1, 1], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 1025, -1, 1], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 0, 2], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 0, 0, 2], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 0, 0, 0, 1, 2], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 0, 0, 0, 1], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 0, 0, 0, -1, 1], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 0, 0, 0, 0, -1], [1], "size"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 0], [1], "index"),
        (Op.FULL_ATTN, [2, 2, 16, -1, 2**59 - 1], [1], "index"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, -1], [1], "index"),
        (Op.FULL_ATTN, [2, 2, 8, -1, 1, 1, 1], [1], "index"),
        (Op.CONV2D, [2, 0, 1, -1, 1], [], "size"),
        (Op.CONV2D, [2, 2, 2, -1, 2], [], "size"),
        (Op.CONV2D, [2, 2, 1, -1, 1, 1], [], "index"),
        (Op.CONV2D, [2, 2, 1, -1, 1, -1], [], "index"),
    ],
)
def test_refuses_bad_constants(runner, op, ints, constants, text):
    arrays = [np.zeros(1024, np.uint8) for _ in range(4)]
    with pytest.raises(KernelError, match=text):
        runner.run(op, 1, arrays, ints, constants)


@pytest.mark.parametrize(
    ("op", "ints", "constants"),
    [
        (Op.ROWS, [512, 0, 2048, 64], []),
        (Op.SELECT, [512, -1, 64], []),
        (Op.ROPE_ANGLES, [512, 0], [1e4, 1, 0, 1]),
        (Op.RMS_NORM, [64, 8], [1e-6]),
        (Op.ROPE, [2, 256, 128, 1], []),
        (Op.GATE, [512, 0], []),
        (Op.GATE, [512, 1], []),
        (Op.GATE, [512, 2], []),
        (Op.L2_NORM, [64, 4, 512], [1e-6]),
        (Op.HADAMARD, [512, 256, 0, 2, 4], []),
        (Op.ADD, [512, 0], []),
        (Op.MUL, [512, 0], []),
        (Op.SCALE, [512], [0.3]),
        (Op.SOFTCAP, [512], [30.0]),
        (Op.TEMPERATURE, [512, 7], [0.3]),
        (Op.COPY, [512], []),
    ],
)
def test_rows_alone_equal_rows_together(runner, rng, op, ints, constants):
    """1 row, and 64: enough to be shared among threads."""
    x, y, ids = floats(rng, 64, 512), floats(rng, 64, 512), rng.integers(0, 64, 64, dtype=np.int32)

    def run(first, count):
        rows = slice(first, first + count)
        inputs = {
            Op.ROWS: [ids[rows], y],
            Op.SELECT: [y, ids[rows]],
            Op.ROPE_ANGLES: [ids[rows], None],
            Op.TEMPERATURE: [x[rows], ids[rows]],
            Op.ROPE: [x[rows], np.ascontiguousarray(y[rows, :128])],
            Op.RMS_NORM: [x[rows], y[0]],
            Op.HADAMARD: [x[rows], y[0]],
        }.get(op, [x[rows], y[rows]])
        out = np.zeros((count, 512), np.float32)
        runner.run(op, count, [out, *inputs], ints, constants)
        return out

    together = run(0, 64)
    for row in (0, 1, 63):
        assert run(row, 1).tobytes() == together[row : row + 1].tobytes()
