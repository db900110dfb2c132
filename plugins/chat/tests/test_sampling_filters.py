"""Each filter against a plain loop over (id, logit) pairs, written from the formulas of llama.cpp's samplers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from golem_host.kernels.library import load, why_missing
from golem_host.ops.largest import largest, largest_numpy
from golem_host_chat import sampling_filters as filters
from golem_host_chat.sampling_filters import Candidates, SamplingError
from golem_host_chat.sampling_penalties import RepetitionPenalties
from golem_host_chat.sampling_random import Mt19937

# A coarse grid: ties are frequent, and float32 and the reference's float64 agree on every comparison of logits.
LOGITS = st.lists(st.integers(-40, 40).map(lambda step: step / 4), min_size=1, max_size=40)
SHARES = st.floats(0.001, 0.999)
KEEPS = st.integers(0, 6)
ORDERED = st.booleans()
CLOSE = 1e-5
"""A reference whose running sum comes this near to its bound decides nothing."""


def candidates(logits, ordered=False):
    row = Candidates(np.array(logits, np.float32))
    if ordered:
        row.order()
    return row


def pairs(row):
    return [(row.token(position), float(logit)) for position, logit in enumerate(row.logits)]


def falling(items):
    return sorted(items, key=lambda item: (-item[1], item[0]))


def probabilities(items):
    top = max(logit for _, logit in items)
    weights = [math.exp(logit - top) for _, logit in items]
    return [weight / sum(weights) for weight in weights]


def run(weights, bound, keep, over):
    """How many of `weights` it takes to reach (or get over) `bound`, and at least `keep`."""
    total = 0.0
    for count, weight in enumerate(weights, 1):
        total += weight
        assume(abs(total - bound) > CLOSE)
        if (total > bound if over else total >= bound) and count >= keep:
            return count
    return len(weights)


@given(LOGITS, st.integers(1, 50), ORDERED)
def test_top_k(logits, k, ordered):
    row = candidates(logits, ordered)
    filters.top_k(row, k)
    assert pairs(row) == falling(enumerate(logits))[:k]


@given(LOGITS, SHARES, KEEPS, ORDERED)
def test_top_p(logits, p, keep, ordered):
    items = falling(enumerate(logits))
    expected = items[: run(probabilities(items), p, keep, over=False)]
    row = candidates(logits, ordered)
    filters.top_p(row, p, keep)
    assert pairs(row) == expected


@given(LOGITS, SHARES, KEEPS, ORDERED)
def test_min_p(logits, p, keep, ordered):
    bound = max(logits) + math.log(p)
    assume(all(abs(logit - bound) > CLOSE for logit in logits))
    items = falling(enumerate(logits))
    expected = [item for place, item in enumerate(items) if item[1] >= bound or place < keep]
    row = candidates(logits, ordered)
    filters.min_p(row, p, keep)
    assert falling(pairs(row)) == expected


@given(LOGITS, SHARES, KEEPS)
def test_typical_p(logits, p, keep):
    items = list(enumerate(logits))
    weights = probabilities(items)
    entropy = -sum(weight * math.log(weight) for weight in weights)
    distances = [abs(-math.log(weight) - entropy) for weight in weights]
    for one in set(distances):  # two tokens on either side of the entropy: their order is rounding's
        assume(all(other == one or abs(other - one) > CLOSE for other in distances))
    order = sorted(range(len(items)), key=lambda place: distances[place])
    kept = order[: run([weights[place] for place in order], p, keep, over=True)]
    row = candidates(logits)
    filters.typical_p(row, p, keep)
    # Equal logits have equal distances; which of them stay is open, how many is not.
    assert sorted(logit for _, logit in pairs(row)) == sorted(items[place][1] for place in kept)


@given(LOGITS, st.floats(0.1, 4))
def test_top_n_sigma(logits, n):
    bound = max(logits) - n * float(np.std(logits))
    assume(all(abs(logit - bound) > CLOSE for logit in logits))
    row = candidates(logits)
    filters.top_n_sigma(row, n)
    expected = [logit if logit >= bound or len(logits) == 1 else -math.inf for logit in logits]
    assert [logit for _, logit in pairs(row)] == expected


def test_top_n_sigma_leaves_banned_tokens_out_of_the_deviation():
    row = candidates([3.0, 1.0, -math.inf, 2.0])
    filters.top_n_sigma(row, 1.0)  # deviation of 3, 1, 2 is 0.816
    assert [logit for _, logit in pairs(row)] == [3.0, -math.inf, -math.inf, -math.inf]


@given(LOGITS, st.floats(0.01, 0.5), KEEPS, st.integers(0, 1000))
def test_xtc(logits, threshold, keep, seed):
    items = falling(enumerate(logits))
    weights = probabilities(items)
    assume(all(abs(weight - threshold) > CLOSE for weight in weights))
    likely = sum(weight >= threshold for weight in weights)
    expected = items[likely - 1 :] if likely > 1 and len(items) - (likely - 1) >= keep else items
    row = candidates(logits)
    filters.xtc(row, 1.0, threshold, keep, Mt19937(seed))
    assert falling(pairs(row)) == expected


def test_xtc_acts_as_often_as_asked_and_draws_each_time():
    random, reference = Mt19937(7), Mt19937(7)
    for _ in range(50):
        row = candidates([5.0, 5.0, 5.0])
        filters.xtc(row, 0.3, 0.1, 0, random)
        assert (len(row.logits) == 1) == (reference.raw() / 2**32 <= 0.3)


@given(LOGITS, st.floats(0.01, 50))
def test_temperature(logits, value):
    row = candidates(logits)
    filters.temperature(row, value, 0.0, 1.0)
    assert [logit for _, logit in pairs(row)] == pytest.approx([logit / value for logit in logits], rel=1e-5)


@given(LOGITS, ORDERED)
def test_temperature_zero_keeps_the_first_of_the_best(logits, ordered):
    row = candidates(logits, ordered)
    filters.temperature(row, 0.0, 0.0, 1.0)
    assert pairs(row) == falling(enumerate(logits))[:1]


@given(st.lists(st.integers(-20, 20).map(float), min_size=2, max_size=20), st.floats(0.1, 2), st.floats(0.05, 3))
def test_dynamic_temperature_grows_with_the_entropy(logits, value, spread):
    items = falling(enumerate(logits))
    weights = probabilities(items)
    share = -sum(weight * math.log(weight) for weight in weights) / math.log(len(items))
    low = max(0.0, value - spread)
    divisor = low + (value + spread - low) * share**0.7
    assume(divisor > 0.01)
    row = candidates(logits)
    filters.temperature(row, value, spread, 0.7)
    expected = [logit / divisor for _, logit in items]
    assert [logit for _, logit in pairs(row)] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@given(
    LOGITS,
    st.lists(st.integers(0, 39), max_size=30),
    st.lists(st.integers(0, 39), max_size=30),
    st.integers(1, 20),
    st.sampled_from([1.0, 1.1, 0.8, 2.0]),
    st.sampled_from([0.0, 0.5, -0.25]),
    st.sampled_from([0.0, 1.5, -1.0]),
    st.booleans(),
)
def test_penalties(logits, prompt, drawn, last_n, repeat, frequency, presence, narrowed):
    prompt = [token for token in prompt if token < len(logits)]
    drawn = [token for token in drawn if token < len(logits)]
    window = [*prompt, *drawn][-last_n:]
    row = candidates(logits)
    if narrowed:
        filters.top_k(row, max(1, len(logits) // 2))
    expected = []
    for token, logit in pairs(row):
        count = window.count(token)
        if count:
            logit = logit * repeat if logit <= 0 else logit / repeat
            logit -= count * frequency + presence
        expected.append((token, pytest.approx(logit, rel=1e-5, abs=1e-5)))
    penalties = RepetitionPenalties(last_n, repeat, frequency, presence, prompt)
    for token in drawn:
        penalties.accept(token)
    penalties(row)
    assert pairs(row) == expected


@given(st.lists(st.sampled_from([-math.inf, -2.0, 0.0, 0.5, 3.0]), min_size=1, max_size=600), st.data())
def test_largest_takes_equal_values_by_position(values, data):
    k = data.draw(st.integers(1, len(values)))
    expected = falling(enumerate(values))[:k]
    row = np.array(values, np.float32)
    for select in (largest, largest_numpy):
        positions, found = select(row, k)
        assert positions.dtype == np.int32 and found.dtype == np.float32
        assert list(zip(positions.tolist(), found.tolist(), strict=True)) == expected


@pytest.mark.parametrize("k", [1, 40, 1000, 60_000])
def test_largest_of_a_whole_vocabulary(k):
    row = np.random.default_rng(3).normal(size=70_001).astype(np.float32).round(3)
    expected = np.lexsort((np.arange(len(row)), -row))[:k]
    for select in (largest, largest_numpy):
        positions, found = select(row, k)
        assert np.array_equal(positions, expected)
        assert np.array_equal(found, row[expected])


@pytest.mark.parametrize(("size", "k"), [(1, 1), (300, 299), (5000, 40), (5000, 3000)])
@pytest.mark.parametrize("levels", [1, 4, 1000])
def test_the_kernels_library_and_numpy_select_the_same(size, k, levels):
    kernels = load()
    if kernels is None:
        pytest.skip(why_missing())
    row = np.random.default_rng(size + k).integers(-levels, levels, size).astype(np.float32)
    row[row == -1] = -np.inf
    for native, plain in zip(kernels.top_k(row, k), largest_numpy(row, k), strict=True):
        assert np.array_equal(native, plain)


@pytest.mark.parametrize("p", [0.05, 0.9, 0.999, 1 - 1e-7])
def test_top_p_of_a_whole_vocabulary_needs_more_than_the_first_prefix(p):
    logits = np.random.default_rng(5).normal(size=9000).astype(np.float32)
    order = np.argsort(-logits, kind="stable")
    weights = np.exp(logits.astype(np.float64))[order]
    count = int(np.searchsorted(np.cumsum(weights / weights.sum()), p)) + 1
    row = Candidates(logits)
    filters.top_p(row, p, 0)
    assert abs(len(row.logits) - count) <= (1 if p < 0.9999 else 1000)
    assert [token for token, _ in pairs(row)] == order[: len(row.logits)].tolist()


@pytest.mark.parametrize("bad", [[-math.inf, -math.inf], [1.0, math.inf], [1.0, math.nan]])
def test_no_finite_best_logit_is_an_error(bad):
    with pytest.raises(SamplingError):
        candidates(bad).best()


def test_the_callers_logits_are_copied_once_and_never_changed():
    logits = np.array([1.0, 2.0, 3.0], np.float32)
    logits.setflags(write=False)
    row = Candidates(logits)
    first = row.own()
    assert row.own() is first and not np.shares_memory(first, logits)
