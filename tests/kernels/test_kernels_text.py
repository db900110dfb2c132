"""Layer norm, attention within texts and means of their rows, against numpy in float64.

Tolerances are float32 rounding of sums of n terms, in units of the largest term's size.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.kernels.library import KernelError, Op

EPS = float(np.finfo(np.float32).eps)


def attend(runner, q, k, v, texts, scale):
    out = np.full_like(q, np.nan)
    runner.run(Op.TEXT_ATTN, len(q), [out, q, k, v, texts], [*q.shape[1:]], [scale])
    return out


def expected_attention(q, k, v, texts, scale):
    out = np.empty(q.shape)
    for text in np.unique(texts):
        rows = texts == text
        queries, keys, values = (each[rows].transpose(1, 0, 2).astype(np.float64) for each in (q, k, v))
        scores = scale * queries @ keys.transpose(0, 2, 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        out[rows] = (weights @ values).transpose(1, 0, 2)
    return out


def pack(rng, lengths, heads, dim):
    """q, k, v (rows, heads, dim) and the text of each row."""
    rows = sum(lengths)
    q, k, v = (rng.standard_normal((rows, heads, dim)).astype(np.float32) for _ in range(3))
    return q, k, v, np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    heads=st.integers(1, 3),
    dim=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
)
def test_attention_of_texts(runner, guarded, lengths, heads, dim, seed):
    q, k, v, texts = (guarded(each) for each in pack(np.random.default_rng(seed), lengths, heads, dim))
    scale = dim**-0.5
    expected = expected_attention(q, k, v, texts, scale)
    # scores err by a few units of their largest terms, and so do weights, relatively; values are of order one
    assert np.allclose(attend(runner, q, k, v, texts, scale), expected, atol=40 * EPS)


@pytest.mark.parametrize("dim", [32, 64, 300])
def test_a_text_alone_and_in_company(make_runner, rng, dim):
    """Long texts too, which are cut into tiles, on 1 to 3 threads."""
    lengths = [1, 130, 17, 2, 48, 49, 33]
    q, k, v, texts = pack(rng, lengths, 2, dim)
    results = {make_runner(threads): None for threads in (1, 2, 3)}
    together = [attend(each, q, k, v, texts, 0.3).tobytes() for each in results]
    assert len(set(together)) == 1
    runner = make_runner(2)
    whole = attend(runner, q, k, v, texts, 0.3)
    order = rng.permutation(len(lengths))
    shuffled = np.concatenate([np.flatnonzero(texts == text) for text in order])
    moved = attend(runner, q[shuffled], k[shuffled], v[shuffled], np.ascontiguousarray(texts[shuffled]), 0.3)
    assert moved.tobytes() == whole[shuffled].tobytes()
    for text in range(len(lengths)):
        own = texts == text
        alone = attend(runner, q[own], k[own], v[own], np.zeros(lengths[text], np.int32), 0.3)
        assert alone.tobytes() == whole[own].tobytes()


def test_numbers_of_texts_only_part_neighbours(runner, rng):
    q, k, v, texts = pack(rng, [5, 6, 7], 1, 8)
    again = np.where(texts == 1, -9, 4).astype(np.int32)
    assert attend(runner, q, k, v, again, 1).tobytes() == attend(runner, q, k, v, texts, 1).tobytes()


@pytest.mark.parametrize("window", [1, 3, 47, 48, 100, 1 << 62])
def test_attention_in_a_window(make_runner, rng, guarded, window):
    """Across tiles, on 1 to 3 threads, and nothing outside the arrays."""
    lengths = [1, 130, 17, 49]
    q, k, v, texts = (guarded(each) for each in pack(rng, lengths, 2, 24))
    expected = np.empty(q.shape)
    for text in range(len(lengths)):
        for row in np.flatnonzero(texts == text):
            seen = np.flatnonzero((texts == text) & (abs(np.arange(len(texts)) - row) <= window))
            expected[row] = expected_attention(
                np.repeat(q[row : row + 1], len(seen), 0), k[seen], v[seen], np.zeros(len(seen)), 0.2
            )[0]
    results = set()
    for threads in (1, 2, 3):
        out = np.full_like(q, np.nan)
        make_runner(threads).run(Op.TEXT_ATTN, len(q), [out, q, k, v, texts], [2, 24, window], [0.2])
        assert np.allclose(out, expected, atol=40 * EPS)
        results.add(out.tobytes())
    assert len(results) == 1


def test_not_finite_stays_in_its_text(runner, rng):
    q, k, v, texts = pack(rng, [20, 20, 20], 2, 16)
    k[25, 1, 3] = np.nan
    out = attend(runner, q, k, v, texts, 0.25)
    assert np.isnan(out[20:40, 1]).all()
    assert np.isfinite(out[:20]).all() and np.isfinite(out[40:]).all() and np.isfinite(out[20:40, 0]).all()


@pytest.mark.parametrize(
    ("heads", "dim", "window"), [(0, 8, 0), (-1, 8, 0), (2, 0, 0), (2, 1025, 0), (1 << 41, 8, 0), (2, 8, -1)]
)
def test_attention_sizes_that_cannot_be(runner, heads, dim, window):
    x = np.zeros((1, 2, 8), np.float32)
    with pytest.raises(KernelError, match="size"):
        runner.run(Op.TEXT_ATTN, 1, [x, x, x, x, np.zeros(1, np.int32)], [heads, dim, window], [1.0])


@pytest.mark.parametrize("n", [1, 2, 7, 64, 385])
def test_layer_norm(runner, rng, n):
    x = (rng.standard_normal((5, n)) * 3 + 10).astype(np.float32)
    weight, bias = rng.standard_normal((2, n)).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    out = np.empty_like(x)
    runner.run(Op.LAYER_NORM, 5, [out, x, weight, bias], [n], [1e-5])
    # the mean is rounded to float32: a unit of what the rows are moved by, relative to their spread
    assert np.allclose(out, expected, atol=100 * EPS if n > 1 else 16 * EPS / 1e-5**0.5)
    plain = np.empty_like(x)
    runner.run(Op.LAYER_NORM, 5, [plain, x, weight, None], [n], [1e-5])
    assert (plain + bias).tobytes() == out.tobytes()
    runner.run(Op.LAYER_NORM, 5, [x, x, weight, bias], [n], [1e-5])
    assert x.tobytes() == out.tobytes()


def mean(runner, x, first, count):
    out = np.full((len(first), x.shape[1]), np.nan, np.float32)
    counts = [np.asarray(each, np.int32) for each in (first, count)]
    runner.run(Op.MEAN, len(first), [out, x, *counts], [x.shape[1], -1, len(x)])
    return out


def test_means(runner, rng):
    x = rng.standard_normal((40, 33)).astype(np.float32)
    first, count = [0, 7, 39, 0], [1, 20, 1, 40]
    expected = [x[a : a + n].astype(np.float64).mean(0) for a, n in zip(first, count, strict=True)]
    out = mean(runner, x, first, count)
    assert np.allclose(out, expected, atol=8 * EPS)
    assert mean(runner, x[7:27].copy(), [0], [20]).tobytes() == out[1:2].tobytes()
    assert out[2].tobytes() == x[39].tobytes()


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (0, 0), (0, -1), (39, 2), (40, 1), (2**31 - 1, 2**31 - 1)])
def test_means_of_rows_that_are_not_there(runner, first, count):
    out = np.full((2, 3), np.nan, np.float32)
    at = [np.array([0, first], np.int32), np.array([1, count], np.int32)]
    with pytest.raises(KernelError, match="index"):
        runner.run(Op.MEAN, 2, [out, np.zeros((40, 3), np.float32), *at], [3, -1, 40])
    assert np.isnan(out).all()
