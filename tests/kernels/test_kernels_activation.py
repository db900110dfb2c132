"""Activation rows hold exactly what ggml's quantization gives on x86 (layout: activation.h)."""

from __future__ import annotations

import numpy as np
import pytest

from golem_host.kernels.library import Act, KernelError, Op

BLOCKS = {Act.Q8_0: 32, Act.Q8_1: 32, Act.Q8_K: 256}


def arrays_of(kind, row, n):
    """codes, scales, sums of one activation row."""
    blocks = n // BLOCKS[kind]
    codes, rest = row[:n].view(np.int8), row[n:]
    scales, rest = rest[: 4 * blocks].view(np.float32), rest[4 * blocks :]
    if kind is Act.Q8_K:
        sums16, sums32 = rest[: n // 8].view(np.int16), rest[n // 8 :].view(np.int16)
        assert np.array_equal(sums16, codes.reshape(-1, 16).sum(-1))
        assert np.array_equal(sums32, codes.reshape(-1, 32).sum(-1))
        return codes, scales, codes.reshape(-1, 256).sum(-1)
    return codes, scales, rest.view(np.float32 if kind is Act.Q8_1 else np.int32)


@pytest.mark.parametrize("kind", BLOCKS)
def test_rows_are_ggmls(runner, kind, quantized, rng):
    x = (rng.standard_normal((33, 768)) * 10 ** rng.uniform(-6, 4, (33, 1))).astype(np.float32)
    x[0] = 0
    x[1, ::2] = 0.5 * x[1, 0]  # ties in rounding
    x[2] = np.abs(x[2]).max() * np.where(rng.random(768) < 0.5, 1, -1)  # ties in magnitude
    got, expected = runner.activations(kind, x), quantized(kind, x)
    for row in range(len(x)):
        codes, scales, sums = arrays_of(kind, got[row], 768)
        assert np.array_equal(codes, expected.codes[row])
        assert np.array_equal(scales, expected.scales[row])
        assert np.array_equal(sums, expected.sums[row])


@pytest.mark.parametrize("kind", [Act.F32, Act.F16, Act.BF16])
def test_rounded_rows(runner, kind, quantized, rng):
    x = (rng.standard_normal((3, 77)) * 100).astype(np.float32)
    assert np.array_equal(runner.activations(kind, x).view(np.float32), quantized(kind, x).values)


@pytest.mark.parametrize("n", [2, 30, 32, 62, 96])
def test_rows_of_bfloat16(runner, quantized, guarded, n, rng):
    """Of an even width: half the bytes where the instruction set multiplies pairs of them."""
    x = (rng.standard_normal((3, n)) * 100).astype(np.float32)
    x[1, 1] = np.float32(1 + 2**-8)  # halfway, to even
    size = runner.kernels.act_bytes(Act.BF16, n)
    packed = guarded(np.zeros((3, size), np.uint8))
    runner.run(Op.ACT, 3, [packed, guarded(x)], [n, Act.BF16])
    if size == 4 * n:
        values = packed.view(np.float32)
    else:
        assert runner.kernels.isa == "avx512-bf16" and size == 2 * n
        values = (packed.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(values, quantized(Act.BF16, x).values)


@pytest.mark.parametrize("kind", BLOCKS)
def test_tiny_values_become_zero_instead_of_infinite(runner, kind):
    x = np.full((1, 256), 1e-40, np.float32)
    codes, scales, sums = arrays_of(kind, runner.activations(kind, x)[0], 256)
    assert not codes.any() and not scales.any() and not sums.any()


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_makes_its_block_nan(runner, kind, value, rng):
    x = rng.standard_normal((1, 512)).astype(np.float32)
    x[0, 300] = value
    scales = arrays_of(kind, runner.activations(kind, x)[0], 512)[1]
    at = 300 // BLOCKS[kind]
    assert np.isnan(scales[at])
    assert np.isfinite(np.delete(scales, at)).all()


def test_sizes(kernels):
    for kind, block in BLOCKS.items():
        assert kernels.act_bytes(kind, 512) > 512
        assert kernels.act_bytes(kind, block + 16) == 0
    assert kernels.act_bytes(Act.F32, 5) == 20
    assert kernels.act_bytes(6, 256) == kernels.act_bytes(-1, 256) == 0
    assert kernels.act_bytes(Act.Q8_0, 0) == kernels.act_bytes(Act.Q8_0, -32) == kernels.act_bytes(Act.F32, 2**62) == 0


def test_kinds(kernels):
    assert kernels.act_kind(0) == Act.F32
    assert kernels.act_kind(3) == Act.Q8_1
    assert kernels.act_kind(12) == Act.Q8_K
    assert kernels.act_kind(4) == kernels.act_kind(-1) == kernels.act_kind(10**6) == -1


@pytest.mark.parametrize(("n", "kind", "code"), [(48, 1, "size"), (256, 6, "type"), (256, -1, "type"), (0, 1, "size")])
def test_refuses_bad_kinds_and_lengths(runner, n, kind, code):
    with pytest.raises(KernelError, match=code):
        runner.run(Op.ACT, 1, [np.zeros(4096, np.uint8), np.zeros(256, np.float32)], [n, kind])
