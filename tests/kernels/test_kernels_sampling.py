"""Largest logits, and walking GGUF strings."""

from __future__ import annotations

import mmap
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golem_host.kernels import library

pytestmark = pytest.mark.skipif(not library.library_path().is_file(), reason=library.why_missing())

FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]), st.floats(width=32))


@pytest.fixture(scope="module")
def kernels():
    return library.load()


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
    assert kernels.argmax(x) == ranking(x)[0]


@pytest.mark.parametrize("k", [1, 40, 255, 256, 257, 5000, 30_000])
def test_large_rows(kernels, k):
    x = np.random.default_rng(k).integers(-2000, 2000, 30_000).astype(np.float32)
    index, _ = kernels.top_k(x, k)
    assert list(index) == ranking(x)[:k]


def test_ascending_rows(kernels):
    """Every value displaces one: the worst case of the candidates' buffer."""
    x = np.arange(20_000, dtype=np.float32)
    assert list(kernels.top_k(x, 3)[0]) == [19_999, 19_998, 19_997]


@pytest.mark.parametrize("x", [np.zeros(4), np.zeros((2, 2), np.float32), np.zeros(0, np.float32)])
def test_refuses_what_is_no_row_of_float32(kernels, x):
    with pytest.raises(ValueError, match="float32"):
        kernels.argmax(x)
    with pytest.raises(ValueError, match="float32"):
        kernels.top_k(x, 1)


@pytest.mark.parametrize("k", [0, -1, 5])
def test_refuses_a_bad_k(kernels, k):
    with pytest.raises(ValueError, match="k must be"):
        kernels.top_k(np.zeros(4, np.float32), k)


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
