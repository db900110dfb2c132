"""Slot caches: what is stored, and attention over it against numpy in float64.

Queries and weights are rounded to half precision in both. Tolerance: float32 sums and an exp within 2 ulp put a weight
on the other side of a half-precision border now and then; all weights together are 1, so that costs at most 2^-11 of
the largest value.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.kernels.library import KernelError, Op

TOLERANCE = 2**-11


class Cache:
    """Slots with keys and values of every position up to `length`, in rings."""

    def __init__(self, rng, slots=2, kv_heads=2, ring=128, hd=16, vd=24, length=100):
        self.k = rng.standard_normal((slots, kv_heads, length, hd)).astype(np.float16)
        self.v = rng.standard_normal((slots, kv_heads, length, vd)).astype(np.float16)
        self.ring_k = np.zeros((slots, kv_heads, ring, hd), np.float16)
        self.ring_v = np.zeros((slots, kv_heads, ring, vd), np.float16)
        for position in range(length):
            self.ring_k[:, :, position % ring] = self.k[:, :, position]
            self.ring_v[:, :, position % ring] = self.v[:, :, position]
        self.slots, self.kv_heads, self.ring, self.hd, self.vd = slots, kv_heads, ring, hd, vd

    def ints(self, heads, window=0):
        return [heads, self.kv_heads, self.hd, self.vd, self.ring, self.slots, window]

    def expected(self, q, slots, positions, window=0, scale=1.0, softcap=0.0):
        rows, heads, _ = q.shape
        out = np.empty((rows, heads, self.vd))
        for r in range(rows):
            span = slice(max(0, positions[r] - window + 1) if window else 0, positions[r] + 1)
            for h in range(heads):
                kv = h // (heads // self.kv_heads)
                query = q[r, h].astype(np.float16).astype(np.float64)
                score = self.k[slots[r], kv, span].astype(np.float64) @ query * scale
                if softcap:
                    score = softcap * np.tanh(score / softcap)
                weight = np.exp(score - score.max())
                weight = (weight / weight.sum()).astype(np.float16).astype(np.float64)
                out[r, h] = weight @ self.v[slots[r], kv, span].astype(np.float64)
        return out


def attend(runner, cache, q, slots, positions, window=0, scale=1.0, softcap=0.0):
    out = np.full((*q.shape[:2], cache.vd), np.nan, np.float32)
    runner.run(
        Op.ATTN,
        len(q),
        [out, q, cache.ring_k, cache.ring_v, np.asarray(slots, np.int32), np.asarray(positions, np.int32)],
        cache.ints(q.shape[1], window),
        [scale, softcap],
    )
    return out


def queries(rng, rows, heads, hd):
    return rng.standard_normal((rows, heads, hd)).astype(np.float32)


@pytest.mark.parametrize("hd", [8, 20, 64, 80, 256])
@pytest.mark.parametrize("vd", [8, 20, 64, 80, 256])
def test_head_sizes(runner, rng, hd, vd):
    cache = Cache(rng, hd=hd, vd=vd, ring=200, length=200)
    q, slots, positions = queries(rng, 5, 6, hd), [0, 1, 1, 0, 1], [0, 63, 64, 150, 199]
    got = attend(runner, cache, q, slots, positions, scale=hd**-0.5)
    expected = cache.expected(q, slots, positions, scale=hd**-0.5)
    assert np.abs(got - expected).max() <= TOLERANCE * np.abs(cache.v).max()


@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 100])
def test_windows_in_rings(runner, rng, window):
    """A ring that is no multiple of 64 and has been written around several times."""
    cache = Cache(rng, ring=107, length=700)
    oldest = 700 - 107 + window - 1  # the first position whose whole window is still there
    positions = sorted({oldest, 699} | {p for p in (639, 640, 650) if p >= oldest})
    q, slots = queries(rng, len(positions), 4, 16), [p % 2 for p in positions]
    got = attend(runner, cache, q, slots, positions, window, 0.25)
    expected = cache.expected(q, slots, positions, window, 0.25)
    assert np.abs(got - expected).max() <= TOLERANCE * np.abs(cache.v).max()


def test_softcap(runner, rng):
    cache = Cache(rng)
    q, slots, positions = 4 * queries(rng, 3, 2, 16), [0, 1, 0], [5, 70, 99]
    got = attend(runner, cache, q, slots, positions, softcap=5.0)
    assert np.abs(got - cache.expected(q, slots, positions, softcap=5.0)).max() <= TOLERANCE * np.abs(cache.v).max()
    assert np.abs(got - attend(runner, cache, q, slots, positions)).max() > 0.01


def test_large_scores(runner, rng):
    """Scores of hundreds: weights underflow, nothing overflows."""
    cache = Cache(rng)
    q, slots, positions = 100 * queries(rng, 3, 2, 16), [0, 1, 0], [5, 70, 99]
    got = attend(runner, cache, q, slots, positions)
    expected = cache.expected(q, slots, positions)
    assert np.abs(got - expected).max() <= TOLERANCE * np.abs(cache.v).max()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    group=st.integers(1, 5),
    kv_heads=st.integers(1, 3),
    positions=st.lists(st.integers(0, 140), min_size=1, max_size=9),
    window=st.sampled_from([0, 0, 1, 30, 64, 90]),
    seed=st.integers(0, 2**32 - 1),
)
def test_alone_equals_batched(runner, portable, group, kv_heads, positions, window, seed):
    rng = np.random.default_rng(seed)
    cache = Cache(rng, kv_heads=kv_heads, ring=150, length=141)
    q, slots = queries(rng, len(positions), group * kv_heads, 16), rng.integers(0, 2, len(positions))
    together = attend(runner, cache, q, slots, positions, window, 0.25)
    expected = cache.expected(q, slots, positions, window, 0.25)
    assert np.abs(together - expected).max() <= TOLERANCE * np.abs(cache.v).max()
    for r in range(len(positions)):
        alone = attend(runner, cache, q[r : r + 1].copy(), slots[r : r + 1], positions[r : r + 1], window, 0.25)
        assert alone.tobytes() == together[r : r + 1].tobytes()


def test_threads_do_not_matter(make_runner, rng):
    cache = Cache(rng, kv_heads=1, ring=700, length=700, hd=64, vd=64)
    q, slots, positions = queries(rng, 33, 4, 64), rng.integers(0, 2, 33), rng.integers(0, 700, 33)
    results = {attend(make_runner(t), cache, q, slots, positions).tobytes() for t in (1, 2, 3)}
    assert len(results) == 1


def test_ring_size_does_not_matter(runner, rng):
    """The same keys in rings of different sizes."""
    big = Cache(rng, ring=640, length=640)
    small = Cache(rng, ring=101, length=640)
    for name in ("k", "v"):
        values = getattr(big, name)
        for position in range(640):
            getattr(small, f"ring_{name}")[:, :, position % 101] = values[:, :, position]
    q = queries(rng, 2, 4, 16)
    assert (
        attend(runner, big, q, [0, 1], [639, 639], 101).tobytes()
        == attend(runner, small, q, [0, 1], [639, 639], 101).tobytes()
    )


def store(runner, cache, k, v, slots, positions):
    runner.run(
        Op.STORE,
        len(k),
        [cache.ring_k, cache.ring_v, k, v, np.asarray(slots, np.int32), np.asarray(positions, np.int32)],
        [cache.kv_heads, cache.hd, cache.vd, cache.ring, cache.slots],
    )


def test_store(runner, rng):
    cache = Cache(rng, ring=10, hd=13, vd=40, length=0)
    k, v = rng.standard_normal((3, 2, 13)).astype(np.float32), rng.standard_normal((3, 2, 40)).astype(np.float32)
    v[0, 0, :4] = [1e6, -1e6, 1e-8, np.nan]
    store(runner, cache, k, v, [1, 0, 1], [7, 25, 38])
    expected_k, expected_v = np.zeros_like(cache.ring_k), np.zeros_like(cache.ring_v)
    with np.errstate(over="ignore"):
        for row, (slot, cell) in enumerate([(1, 7), (0, 5), (1, 8)]):
            expected_k[slot, :, cell], expected_v[slot, :, cell] = k[row], v[row]
    assert np.array_equal(cache.ring_k, expected_k)
    assert np.array_equal(cache.ring_v, expected_v, equal_nan=True)


@pytest.mark.parametrize(
    ("slots", "positions", "text"),
    [([0, 2], [0, 0], "slot"), ([-1, 0], [0, 0], "slot"), ([0, 1], [0, -1], "position")],
)
def test_outside_the_cache_nothing_is_touched(runner, rng, slots, positions, text):
    cache = Cache(rng, length=0)
    with pytest.raises(KernelError, match=text):
        store(runner, cache, queries(rng, 2, 2, 16), queries(rng, 2, 2, 24), slots, positions)
    assert not cache.ring_k.any() and not cache.ring_v.any()
    with pytest.raises(KernelError, match=text):
        attend(runner, cache, queries(rng, 2, 2, 16), slots, positions)


def test_more_than_the_ring_holds_is_refused(runner, rng):
    cache = Cache(rng, ring=64, length=64)
    attend(runner, cache, queries(rng, 1, 2, 16), [0], [63])
    attend(runner, cache, queries(rng, 1, 2, 16), [0], [1000], window=64)
    for window in (0, 65):
        with pytest.raises(KernelError, match="position"):
            attend(runner, cache, queries(rng, 1, 2, 16), [0], [64], window=window)


@pytest.mark.parametrize(
    "ints",
    [[3, 2, 16, 24, 128, 2, 0], [2, 2, 0, 24, 128, 2, 0], [2, 2, 2000, 24, 128, 2, 0], [2, 2, 16, 24, 128, 2, -1]],
)
def test_refuses_bad_shapes(runner, rng, ints):
    arrays = [np.zeros(1 << 16, np.uint8) for _ in range(6)]
    with pytest.raises(KernelError, match="size"):
        runner.run(Op.ATTN, 1, arrays, ints, [1.0])
