"""Slot caches: what is stored, and attention over it against numpy in float64.

Both read what the cache holds and round queries alike; over f16 caches weights are rounded to half precision in both.
Tolerance: float32 sums and an exp within 2 ulp put a weight on the other side of a half-precision border now and then;
all weights together are 1, so that costs at most 2^-11 of the largest value.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from golem_host.devices.cpu import CpuCache
from golem_host.kernels.library import Act, KernelError, Op
from golem_host.ops import CacheType

TOLERANCE = 2**-11
TYPES = {CacheType.F16: 0, CacheType.F32: 1, CacheType.Q8_0: 8}


@pytest.fixture(params=list(CacheType), ids=lambda each: each.value)
def kind(request):
    return request.param


class Cache:
    """Slots with keys and values of every position up to `length`, in a ring of cells.

    `k` (slots, kv_heads, length, hd) and `v` hold what the cache was given, `ring` is the cache.
    """

    def __init__(self, rng, kind=CacheType.F16, slots=2, kv_heads=2, ring=128, hd=32, vd=32, length=100):
        self.k = rng.standard_normal((slots, kv_heads, length, hd)).astype(np.float32)
        self.v = rng.standard_normal((slots, kv_heads, length, vd)).astype(np.float32)
        self.ring = CpuCache(slots=slots, cells=ring, kv_heads=kv_heads, key_dim=hd, value_dim=vd, type=kind)
        for slot in range(slots):
            for position in range(length):
                self.ring.write(slot, position, self.k[slot, :, position], self.v[slot, :, position])
        self.kind = kind
        self.hd = hd

    def arrays(self):
        return [self.ring.keys, self.ring.values]

    def ints(self, heads, window=0, block=1):
        ring = self.ring
        kind = TYPES[self.kind]
        return [heads, ring.kv_heads, ring.key_dim, ring.value_dim, ring.cells, ring.slots, window, kind, block]

    def expected(self, quantized, q, slots, positions, window=0, scale=1.0, softcap=0.0, block=1):
        rows, heads, hd = q.shape
        act = {CacheType.F16: Act.F16, CacheType.Q8_0: Act.Q8_0}.get(self.kind)
        query = q if act is None else quantized(act, q.reshape(-1, hd)).values.reshape(q.shape)
        out = np.empty((rows, heads, self.ring.value_dim))
        for r in range(rows):
            last = positions[r] // block * block + block - 1
            first = max(0, last - window + 1) if window else 0
            k, v = self.ring.read(slots[r], np.arange(first, positions[r] + 1))
            for h in range(heads):
                kv = h // (heads // self.ring.kv_heads)
                score = k[kv].astype(np.float64) @ query[r, h] * scale
                if softcap:
                    score = softcap * np.tanh(score / softcap)
                weight = np.exp(score - score.max())
                weight /= weight.sum()
                if self.kind is CacheType.F16:
                    weight = weight.astype(np.float16).astype(np.float64)
                out[r, h] = weight @ v[kv].astype(np.float64)
        return out


def attend(runner, cache, q, slots, positions, window=0, scale=1.0, softcap=0.0, block=1):
    out = np.full((*q.shape[:2], cache.ring.value_dim), np.nan, np.float32)
    runner.run(
        Op.ATTN,
        len(q),
        [out, q, *cache.arrays(), np.asarray(slots, np.int32), np.asarray(positions, np.int32)],
        cache.ints(q.shape[1], window, block),
        [scale, softcap],
    )
    return out


@pytest.fixture
def check(runner, quantized):
    """Attends and compares."""

    def compare(cache, q, slots, positions, **constants):
        got = attend(runner, cache, q, slots, positions, **constants)
        expected = cache.expected(quantized, q, slots, positions, **constants)
        assert np.abs(got - expected).max() <= TOLERANCE * np.abs(cache.v).max()
        return got

    return compare


def queries(rng, rows, heads, hd):
    return rng.standard_normal((rows, heads, hd)).astype(np.float32)


@pytest.mark.parametrize("hd", [8, 20, 64, 80, 256])
@pytest.mark.parametrize("vd", [8, 20, 64, 80, 256])
def test_head_sizes(check, rng, hd, vd):
    cache = Cache(rng, hd=hd, vd=vd, ring=200, length=200)
    check(cache, queries(rng, 5, 6, hd), [0, 1, 1, 0, 1], [0, 63, 64, 150, 199], scale=hd**-0.5)


@pytest.mark.parametrize("hd", [32, 64, 96, 256])
@pytest.mark.parametrize("vd", [32, 64, 96, 256])
def test_head_sizes_of_q8_0(check, rng, hd, vd):
    cache = Cache(rng, CacheType.Q8_0, hd=hd, vd=vd, ring=200, length=200)
    check(cache, queries(rng, 5, 6, hd), [0, 1, 1, 0, 1], [0, 63, 64, 150, 199], scale=hd**-0.5)


@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 100])
def test_windows_in_rings(check, rng, kind, window):
    """A ring that is no multiple of 16 and has been written around several times."""
    cache = Cache(rng, kind, ring=107, length=700)
    oldest = 700 - 107 + window - 1  # the first position whose whole window is still there
    positions = sorted({oldest, 699} | {p for p in (639, 640, 650) if p >= oldest})
    check(cache, queries(rng, len(positions), 4, 32), [p % 2 for p in positions], positions, window=window, scale=0.25)


@pytest.mark.parametrize(("window", "group"), [(0, 1), (0, 3), (0, 17), (70, 4), (5, 2), (1, 1)])
def test_prompts(runner, check, rng, kind, window, group):
    """Rows that follow each other share keys and values, each up to its own position."""
    length = 290 if window else 150
    cache = Cache(rng, kind, ring=150, length=length)
    positions = range(length - 40, length)
    q, slots = queries(rng, 40, 2 * group, 32), [1] * 40
    together = check(cache, q, slots, positions, window=window, scale=0.25)
    alone = [attend(runner, cache, q[r : r + 1], [1], [p], window, 0.25)[0] for r, p in enumerate(positions)]
    assert together.tobytes() == np.stack(alone).tobytes()


@pytest.mark.parametrize(("window", "block"), [(6, 2), (7, 2), (5, 4), (64, 3)])
def test_blocks_of_positions_look_back_as_far_as_their_last(runner, check, rng, kind, window, block):
    cache = Cache(rng, kind, ring=150, length=290)
    positions = range(250, 290)
    q, slots = queries(rng, 40, 4, 32), [1] * 40
    together = check(cache, q, slots, positions, window=window, scale=0.25, block=block)
    alone = [
        attend(runner, cache, q[r : r + 1], [1], [p], window, 0.25, block=block)[0] for r, p in enumerate(positions)
    ]
    assert together.tobytes() == np.stack(alone).tobytes()
    check(cache, q[:3], [0] * 3, range(3), window=window, block=block)


def test_f32_caches_round_nothing(check, rng):
    """Within float32 sums of 32 products and an exp of 2 ulp: 2^-19 of the largest value."""
    cache = Cache(rng, CacheType.F32)
    q, slots, positions = queries(rng, 3, 2, 32), [0, 1, 0], [5, 70, 99]
    got, expected = check(cache, q, slots, positions, scale=0.3), cache.expected(None, q, slots, positions, scale=0.3)
    assert np.abs(got - expected).max() <= 2**-19 * np.abs(cache.v).max()


def test_softcap(runner, check, rng, kind):
    cache = Cache(rng, kind)
    q, slots, positions = 4 * queries(rng, 3, 2, 32), [0, 1, 0], [5, 70, 99]
    got = check(cache, q, slots, positions, softcap=5.0)
    assert np.abs(got - attend(runner, cache, q, slots, positions)).max() > 0.01


def test_large_scores(check, rng, kind):
    """Scores of hundreds: weights underflow, nothing overflows."""
    check(Cache(rng, kind), 100 * queries(rng, 3, 2, 32), [0, 1, 0], [5, 70, 99])


@pytest.mark.parametrize(("name", "bad"), [("k", np.nan), ("v", np.nan), ("v", np.inf), ("v", -np.inf)])
def test_what_is_not_finite_stays_with_those_who_see_it(runner, rng, kind, name, bad):
    """A bad key or value at position 60: rows before it and the other kv head do not notice, rows after it show it."""
    cache = Cache(rng, kind)
    q, slots, positions = queries(rng, 8, 4, 32), [0] * 8, list(range(56, 64))
    clean = attend(runner, cache, q, slots, positions, scale=0.2)
    getattr(cache, name)[0, 0, 60, 3] = bad
    cache.ring.write(0, 60, cache.k[0, :, 60], cache.v[0, :, 60])
    got = attend(runner, cache, q, slots, positions, scale=0.2)
    assert got[:4].tobytes() == clean[:4].tobytes() and got[:, 2:].tobytes() == clean[:, 2:].tobytes()
    assert not np.isfinite(got[4:, :2]).all(-1).any()


def test_a_query_that_is_not_finite_shows(runner, rng, kind):
    cache = Cache(rng, kind)
    q = queries(rng, 5, 4, 32)
    clean = attend(runner, cache, q, [0] * 5, range(90, 95))
    q[2, 1, 7] = np.nan
    got = attend(runner, cache, q, [0] * 5, range(90, 95))
    assert np.isnan(got[2, 1]).all()
    got[2, 1] = clean[2, 1]
    assert got.tobytes() == clean.tobytes()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    group=st.integers(1, 5),
    kv_heads=st.integers(1, 3),
    positions=st.lists(st.integers(0, 140), min_size=1, max_size=9),
    window=st.sampled_from([0, 0, 1, 30, 64, 90]),
    seed=st.integers(0, 2**32 - 1),
)
def test_alone_equals_batched(runner, check, kind, group, kv_heads, positions, window, seed):
    rng = np.random.default_rng(seed)
    cache = Cache(rng, kind, kv_heads=kv_heads, ring=150, length=141)
    q, slots = queries(rng, len(positions), group * kv_heads, 32), rng.integers(0, 2, len(positions))
    together = check(cache, q, slots, positions, window=window, scale=0.25)
    for r in range(len(positions)):
        alone = attend(runner, cache, q[r : r + 1].copy(), slots[r : r + 1], positions[r : r + 1], window, 0.25)
        assert alone.tobytes() == together[r : r + 1].tobytes()


@pytest.mark.parametrize("positions", [[3000], [2999, 700, 12], range(2900, 2920)], ids=["one", "few", "prompt"])
def test_threads_do_not_matter(make_runner, rng, kind, positions):
    """One long row is split between threads, many rows are shared out."""
    cache = Cache(rng, kind, kv_heads=1, slots=1, ring=3001, length=3001, hd=64, vd=96)
    q, slots = queries(rng, len(positions), 4, 64), [0] * len(positions)
    results = {attend(make_runner(t), cache, q, slots, positions).tobytes() for t in (1, 2, 3)}
    assert len(results) == 1


@pytest.mark.parametrize("window", [0, 1100])
def test_instruction_sets_do_not_matter(vector_runners, rng, kind, window):
    """Sums have their lanes and their order whatever a vector holds. Portable code has no fused multiply-add."""
    cache = Cache(rng, kind, slots=1, kv_heads=1, ring=1300, hd=64, vd=96, length=1300)
    q = queries(rng, 40, 3, 64)
    rows = [0] * 40, np.arange(1260, 1300)
    first, *others = (attend(each, cache, q, *rows, window=window, scale=0.2, softcap=5.0) for each in vector_runners)
    for each in others:
        np.testing.assert_array_equal(each, first)


def test_ring_size_does_not_matter(runner, rng, kind):
    """The same keys in rings of different sizes."""
    results = set()
    for ring in (640, 101, 107):
        cache = Cache(np.random.default_rng(3), kind, ring=ring, length=640)
        q = queries(np.random.default_rng(4), 2, 4, 32)
        results.add(attend(runner, cache, q, [0, 1], [639, 639], 101).tobytes())
    assert len(results) == 1


def test_reads_and_writes_within_its_arrays(runner, rng, kind, guarded):
    cache = Cache(rng, kind, slots=1, kv_heads=1, ring=41, length=41)
    cache.ring.keys, cache.ring.values = guarded(cache.ring.keys), guarded(cache.ring.values)
    q, out = guarded(queries(rng, 3, 3, 32)), guarded(np.empty((3, 3, 32), np.float32))
    k, v = guarded(queries(rng, 3, 1, 32)), guarded(queries(rng, 3, 1, 32))
    slots, positions = guarded(np.zeros(3, np.int32)), guarded(np.arange(38, 41, dtype=np.int32))
    store(runner, cache, k, v, slots, positions)
    runner.run(Op.ATTN, 3, [out, q, *cache.arrays(), slots, positions], cache.ints(3), [0.2, 0.0])
    assert np.isfinite(out).all()


def store(runner, cache, k, v, slots, positions):
    ring = cache.ring
    runner.run(
        Op.STORE,
        len(k),
        [*cache.arrays(), k, v, np.asarray(slots, np.int32), np.asarray(positions, np.int32)],
        [ring.kv_heads, ring.key_dim, ring.value_dim, ring.cells, ring.slots, TYPES[cache.kind]],
    )


@pytest.mark.parametrize(
    ("kind", "hd", "vd"),
    [(CacheType.F16, 13, 40), (CacheType.F16, 64, 8), (CacheType.F32, 13, 40), (CacheType.Q8_0, 32, 96)],
)
def test_store(runner, rng, kind, hd, vd):
    """Two rounds of a ring of 21 cells; what the cache's own `write` stores is the measure."""
    stored, expected = (Cache(rng, kind, ring=21, hd=hd, vd=vd, length=0) for _ in range(2))
    slots, positions = [1, 0, 1, 0, 0], [7, 25, 39, 20, 21]
    k, v = queries(rng, 5, 2, hd), queries(rng, 5, 2, vd)
    v[0, 0, :4] = [1e6, -1e6, 1e-8, np.nan]
    k[1, 1] = 0
    k[2, 0] *= 1e-40
    store(runner, stored, k, v, slots, positions)
    for row in range(5):
        expected.ring.write(slots[row], positions[row], k[row], v[row])
    assert stored.ring.keys.any() and stored.ring.values.any()
    for got, wanted in zip(stored.arrays(), expected.arrays(), strict=True):
        assert np.array_equal(got, wanted, equal_nan=got.dtype != np.uint8)


def test_a_cache_gives_back_what_it_was_wanted(rng):
    k, v = rng.standard_normal((2, 50, 2, 64)).astype(np.float32)
    k[30, 1, 5], v[31, 0, 0] = np.inf, np.nan
    for kind, share in ((CacheType.F16, 2**-11), (CacheType.F32, 0), (CacheType.Q8_0, 1 / 254 + 2**-11)):
        cache = CpuCache(slots=2, cells=21, kv_heads=2, key_dim=64, value_dim=64, type=kind)
        for position in range(50):
            cache.write(1, position, k[position], v[position])
        cache.copy_slot(1, 0)
        for got, wanted in zip(cache.read(0, np.arange(29, 50)), (k[29:], v[29:]), strict=True):
            blocks, wanted = got.reshape(2, 21, 2, 32), np.moveaxis(wanted, 1, 0).reshape(2, 21, 2, 32)
            bad = ~np.isfinite(wanted).all(-1)
            assert bad.sum() == 1 and not np.isfinite(blocks[bad]).all()
            blocks, wanted = blocks[~bad], wanted[~bad]
            assert (np.abs(blocks - wanted).max(-1) <= share * np.abs(wanted).max(-1)).all()


@pytest.mark.parametrize("dims", [(20, 32), (32, 48)])
def test_q8_0_wants_whole_blocks(dims):
    with pytest.raises(ValueError, match="blocks of 32 values"):
        CpuCache(slots=1, cells=8, kv_heads=1, key_dim=dims[0], value_dim=dims[1], type=CacheType.Q8_0)


@pytest.mark.parametrize(
    ("slots", "positions", "text"),
    [([0, 2], [0, 0], "slot"), ([-1, 0], [0, 0], "slot"), ([0, 1], [0, -1], "position")],
)
def test_outside_the_cache_nothing_is_touched(runner, rng, kind, slots, positions, text):
    cache = Cache(rng, kind, length=0)
    with pytest.raises(KernelError, match=text):
        store(runner, cache, queries(rng, 2, 2, 32), queries(rng, 2, 2, 32), slots, positions)
    assert not cache.ring.keys.any() and not cache.ring.values.any()
    with pytest.raises(KernelError, match=text):
        attend(runner, cache, queries(rng, 2, 2, 32), slots, positions)


def test_more_than_the_ring_holds_is_refused(runner, rng):
    cache = Cache(rng, ring=64, length=64)
    attend(runner, cache, queries(rng, 1, 2, 32), [0], [63])
    attend(runner, cache, queries(rng, 1, 2, 32), [0], [1000], window=64)
    for window in (0, 65):
        with pytest.raises(KernelError, match="position"):
            attend(runner, cache, queries(rng, 1, 2, 32), [0], [64], window=window)


@pytest.mark.parametrize(
    "ints",
    [
        [3, 2, 16, 24, 128, 2, 0, 0],
        [2, 2, 0, 24, 128, 2, 0, 0],
        [2, 2, 2000, 24, 128, 2, 0, 0],
        [2, 2, 16, 24, 128, 2, -1, 0],
        [2, 2, 32, 48, 128, 2, 0, 8],
        [2, 2, 16, 24, 128, 2, 0, 0, -1],
    ],
)
def test_refuses_bad_shapes(runner, ints):
    arrays = [np.zeros(1 << 16, np.uint8) for _ in range(6)]
    with pytest.raises(KernelError, match="size"):
        runner.run(Op.ATTN, 1, arrays, ints, [1.0])


@pytest.mark.parametrize("op", [Op.ATTN, Op.STORE])
def test_refuses_an_unknown_cache_type(runner, op):
    arrays = [np.zeros(1 << 16, np.uint8) for _ in range(6)]
    ints = [2, 2, 32, 32, 16, 1, 0, 3] if op is Op.ATTN else [2, 32, 32, 16, 1, 3]
    with pytest.raises(KernelError, match="type not supported"):
        runner.run(op, 1, arrays, ints, [1.0])
