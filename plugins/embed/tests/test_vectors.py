"""Cutting, normalising and writing vectors."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host_embed.routes.vectors import (
    EUCLIDEAN,
    LARGEST,
    RAW,
    as_base64,
    as_numbers,
    normalized,
    unit,
)

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 400))
ROWS = st.builds(
    lambda shape, seed: np.random.default_rng(seed).normal(0, 9, shape).astype(np.float32), SHAPES, st.integers(0, 9999)
)


@given(rows=ROWS, kind=st.sampled_from([LARGEST, 1, EUCLIDEAN, 3, 1000]), dimensions=st.integers(1, 500))
def test_a_row_alone_has_the_same_bytes(rows: np.ndarray, kind: int, dimensions: int) -> None:
    together, cut = normalized(rows, kind), unit(rows, dimensions)
    for index, row in enumerate(rows):
        assert normalized(row[None], kind)[0].tobytes() == together[index].tobytes()
        assert unit(row[None], dimensions)[0].tobytes() == cut[index].tobytes()
    assert normalized(rows[::-1], kind)[::-1].tobytes() == together.tobytes()


@given(rows=ROWS, dimensions=st.integers(1, 400))
def test_unit_length(rows: np.ndarray, dimensions: int) -> None:
    vectors = unit(rows, dimensions).astype(np.float64)
    assert vectors.shape == (len(rows), min(dimensions, rows.shape[1]))
    for vector, row in zip(vectors, rows.astype(np.float64), strict=True):
        length = np.linalg.norm(row[:dimensions])
        if length > 1e-6:
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)  # components are rounded to float32
            assert vector @ row[:dimensions] == pytest.approx(length, rel=1e-6)


def test_kinds_of_norms() -> None:
    rows = np.array([[3, -4], [0, 0]], np.float32)
    assert normalized(rows, RAW) is rows
    assert normalized(rows, LARGEST).tolist() == [[24570, -32760], [0, 0]]
    assert normalized(rows, 1)[0] == pytest.approx([3 / 7, -4 / 7])
    assert normalized(rows, EUCLIDEAN)[0] == pytest.approx([0.6, -0.8])
    assert normalized(rows, 3)[0] == pytest.approx(np.array([3, -4]) / 91 ** (1 / 3))
    assert normalized(rows, 1024)[0] == pytest.approx([0.75, -1])
    assert not unit(rows)[1].any()


def test_writing() -> None:
    row = np.array([0.1, -2.5, 3e-8], np.float32)
    assert np.float32(json.loads(as_numbers(row))).tolist() == row.tolist()
    assert np.frombuffer(base64.b64decode(json.loads(as_base64(row))), "<f4").tolist() == row.tolist()
