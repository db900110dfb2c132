"""Largest logits, and walking GGUF strings."""

from __future__ import annotations

import mmap
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golem_host.kernels.library import MAXIMA_BLOCK, KernelError, Op

FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]), st.floats(width=32))


def ranking(x):
    """Indices by value, largest first, NaN last, ties by index."""
    return sorted(range(len(x)), key=lambda i: (np.isnan(x[i]), 0.0 if np.isnan(x[i]) else -float(x[i]), i))


@given(st.lists(FLOATS, min_size=1, max_size=300), st.data())
def test_ranking(kernels, values, data):
    x = np.array(values, np.float32)
    k = data.draw(st.integers(1, len(x)))
    index, value = kernels.top_k(x, k)
    assert list(index) == ranking(x)[:k]
    assert np.array_equal(value, x[index], equal_nan=True)


def many(n, seed):
    """Whole numbers, so that many are equal, in a random order."""
    return np.random.default_rng(seed).integers(-2000, 2000, n).astype(np.float32)


ROWS = {
    "random": many(30_000, 1),
    "rising": np.arange(20_000, dtype=np.float32),
    "falling": -np.arange(20_003, dtype=np.float32),
    "equal": np.full(20_001, -3, np.float32),
    "banned": np.where(np.arange(20_000) % 5000 == 4000, many(20_000, 2), -np.inf).astype(np.float32),
    "no numbers": np.where(np.arange(20_000) % 7000 == 4000, 1, np.nan).astype(np.float32),
    "infinite": np.where(np.arange(20_000) < 2000, np.inf, many(20_000, 3)).astype(np.float32),
}


@pytest.mark.parametrize("k", [1, 40, 256, 257, 5000, 20_000])
@pytest.mark.parametrize("name", ROWS)
def test_large_rows(kernels, guarded, name, k):
    x = guarded(ROWS[name])
    index, value = kernels.top_k(x, k)
    assert list(index) == ranking(x)[:k]
    assert np.array_equal(value, x[index], equal_nan=True)


def searched(runner, guarded, rows, n):
    """Block maxima and the largest of the first n values of each row, as a pass finds them."""
    maxima = guarded(np.zeros((len(rows), -(-n // MAXIMA_BLOCK)), np.float32))
    x, best = guarded(rows), guarded(np.zeros(len(rows), np.int32))
    runner.run(Op.BLOCK_MAXIMA, len(rows), [maxima, x], [n, rows.shape[1]])
    runner.run(Op.ARG_LARGEST, len(rows), [best, x, maxima], [n, rows.shape[1]])
    return maxima, best


def maxima_of(x):
    blocks = [x[first : first + MAXIMA_BLOCK] for first in range(0, len(x), MAXIMA_BLOCK)]
    return np.array([block.max() if np.isfinite(block).all() else np.nan for block in blocks], np.float32)


@pytest.mark.parametrize("n", [1, 15, 511, 512, 513, 1023, 9999, 20_000])
@pytest.mark.parametrize("beyond", [0, 3])
def test_the_largest_of_rows(runner, guarded, n, beyond):
    rows = np.stack([np.resize(row, n + beyond) for row in ROWS.values()])
    rows[:, n:] = np.nan  # never looked at
    maxima, best = searched(runner, guarded, rows, n)
    for row, found, at in zip(rows[:, :n], maxima, best, strict=True):
        assert np.array_equal(found, maxima_of(row), equal_nan=True)
        assert at == (ranking(row)[0] if np.isfinite(row).all() else -1)


@pytest.mark.parametrize("at", [0, 1000, 1040, 1999])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_told(runner, guarded, at, bad):
    x = many(2000, 5)
    x[at] = bad
    assert searched(runner, guarded, x[None], 2000)[1] == -1


@pytest.mark.parametrize("k", [1, 40, 257, 20_000])
@pytest.mark.parametrize("name", ["random", "rising", "falling", "equal"])
def test_known_maxima_change_nothing(kernels, guarded, name, k):
    x = guarded(ROWS[name])
    for known, alone in zip(kernels.top_k(x, k, guarded(maxima_of(x))), kernels.top_k(x, k), strict=True):
        assert np.array_equal(known, alone)


def test_refuses_maxima_of_another_row(kernels):
    with pytest.raises(ValueError, match="2 maxima of 5 values"):
        kernels.top_k(np.zeros(5, np.float32), 1, np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("op", "ints"), [(Op.BLOCK_MAXIMA, [5, 4]), (Op.ARG_LARGEST, [5, 4]), (Op.BLOCK_MAXIMA, [0, 4])]
)
def test_refuses_more_values_than_a_row_has(runner, op, ints):
    with pytest.raises(KernelError, match="size or constant"):
        runner.run(op, 1, [np.zeros(4, np.float32)] * 3, ints)


@pytest.mark.parametrize("x", [np.zeros(4), np.zeros((2, 2), np.float32), np.zeros(0, np.float32)])
def test_refuses_what_is_no_row_of_float32(kernels, x):
    with pytest.raises(ValueError, match="float32"):
        kernels.top_k(x, 1)


@pytest.mark.parametrize("k", [0, -1, 5])
def test_refuses_a_bad_k(kernels, k):
    with pytest.raises(ValueError, match="k must be"):
        kernels.top_k(np.zeros(4, np.float32), k)


def drawn(kernels, x, share, maxima=None, **changes):
    rules = {"top_k": 5, "top_p": 1.0, "min_p": 0.0, "min_keep": 0, "temperature": 1.0}
    return kernels.draw(x, maxima, kernels.draw_rules(**{**rules, **changes}), share)


def test_draws_by_the_share_of_the_weights(kernels, guarded):
    x = guarded(np.log(np.array([1, 5, 1, 3], np.float32)))
    assert [drawn(kernels, x, share) for share in (0.0, 0.49, 0.51, 0.79, 0.81, 0.89, 0.91, 1.0)] == [
        1,
        1,
        3,
        3,
        0,
        0,
        2,
        2,
    ]
    assert drawn(kernels, x, 1.0, top_k=2) == 3
    assert drawn(kernels, x, 1.0, top_p=0.75) == 3
    assert drawn(kernels, x, 1.0, top_p=0.45) == 1
    assert drawn(kernels, x, 1.0, top_p=0.45, min_keep=2) == 3
    assert drawn(kernels, x, 1.0, min_p=0.5) == 3
    assert drawn(kernels, x, 1.0, min_p=0.7, min_keep=9) == 2
    assert drawn(kernels, x, 0.9, temperature=0.1) == 1


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_draws_nothing_where_the_largest_is_not_finite(kernels, bad):
    assert drawn(kernels, np.full(600, bad, np.float32), 0.5) == -1


def test_never_draws_a_weight_of_zero(kernels):
    x = np.full(700, -np.inf, np.float32)
    x[650] = 3
    assert {drawn(kernels, x, share) for share in (0.0, 0.5, 1.0)} == {650}


@pytest.mark.parametrize("changes", [{"top_k": 0}, {"temperature": 0.0}, {"temperature": np.nan}])
def test_refuses_bad_rules(kernels, changes):
    with pytest.raises(ValueError, match="rules"):
        drawn(kernels, np.zeros(4, np.float32), 0.5, **changes)


def packed(strings):
    return b"".join(struct.pack("<Q", len(s)) + s for s in strings)


@given(st.binary(max_size=20), st.lists(st.binary(max_size=40), max_size=30), st.binary(max_size=20))
def test_walks_strings(kernels, before, strings, after):
    buffer = before + packed(strings) + after
    offsets = kernels.walk_strings(buffer, len(before), len(strings))
    expected = [len(before)]
    for s in strings:
        expected.append(expected[-1] + 8 + len(s))
    assert list(offsets) == expected


@settings(max_examples=200)
@given(st.binary(max_size=200), st.integers(-5, 250), st.integers(-2, 2**40))
def test_never_leaves_the_buffer(kernels, buffer, at, count):
    try:
        offsets = kernels.walk_strings(buffer, at, count)
    except ValueError:
        return
    assert len(offsets) == count + 1
    assert offsets[0] == at and offsets[-1] <= len(buffer)


@pytest.mark.parametrize("length", [1, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
def test_refuses_a_string_that_is_too_long(kernels, length):
    with pytest.raises(ValueError, match="leaves"):
        kernels.walk_strings(packed([b"abc"]) + struct.pack("<Q", length), 0, 2)


def test_walks_a_read_only_mapping(kernels, tmp_path):
    path = tmp_path / "strings"
    path.write_bytes(packed([b"a", b"bc"]))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        assert list(kernels.walk_strings(mapping, 0, 2)) == [0, 9, 19]
