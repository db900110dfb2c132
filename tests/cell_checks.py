"""What the tests of copies of cells share: caches of any device, filled, saved and restored."""

from __future__ import annotations

from typing import Any

import numpy as np

from golem_host.ops import CacheType

SPANS = [(0, 5, 40), (0, 40, 40), (7, 20, 13), (60, 95, 35), (60, 80, 35), (16, 48, 64)]
"""First and end of the positions saved, and the cells there are: within, all, round the ring, whole blocks."""


def check_saved_cells_come_back(backend: Any, first: int, end: int, cells: int, kind: CacheType) -> None:
    """Into another slot, whole and in part, while a third slot stays as it is."""
    cache = backend.cache(slots=3, cells=cells, kv_heads=2, key_dim=32, value_dim=64, type=kind)
    random = np.random.default_rng(first)

    def fill(slot: int) -> None:
        for position in range(max(0, end - cells), end):
            keys, values = random.standard_normal((2, 32), np.float32), random.standard_normal((2, 64), np.float32)
            cache.write(slot, position, keys, values)

    fill(1)
    fill(0)
    positions = np.arange(first, end)
    expected, other = cache.read(1, positions), cache.read(0, positions)
    copy = cache.save(1, first, end)
    fill(1)
    cache.restore(1, cache.save(0, 3, 3))
    blank = cache.blank(first, end)
    for empty, full in ((blank.keys, copy.keys), (blank.values, copy.values)):
        assert (empty.shape, empty.dtype) == (full.shape, full.dtype)
        empty[...] = full
    copy = blank
    part = (first + end) // 2
    for target, until in ((2, part), (2, None), (1, None)):
        cache.restore(target, copy, until)
        count = (end if until is None else until) - first
        for found, wanted in zip(cache.read(target, positions[:count]), expected, strict=True):
            np.testing.assert_array_equal(found, wanted[:, :count])
    for found, wanted in zip(cache.read(0, positions), other, strict=True):
        np.testing.assert_array_equal(found, wanted)
