"""Copies of a slot's cells: what is saved comes back, into any slot, around the ring, whole or in part."""

from __future__ import annotations

import pytest

from cell_checks import SPANS, check_saved_cells_come_back
from golem_host.devices.cells import runs
from golem_host.devices.cpu import CpuBackend
from golem_host.ops import CacheType


@pytest.mark.parametrize("kind", list(CacheType))
@pytest.mark.parametrize("span", SPANS)
def test_saved_cells_come_back(span: tuple[int, int, int], kind: CacheType) -> None:
    check_saved_cells_come_back(CpuBackend(threads=1), *span, kind)


def test_positions_round_the_ring_are_two_runs() -> None:
    assert runs(7, 20, 13) == [range(7, 13), range(0, 7)]
    assert runs(26, 29, 13) == [range(0, 3)]
    assert runs(5, 5, 13) == []


@pytest.mark.parametrize(("first", "end"), [(0, 14), (5, 4), (-1, 3)])
def test_positions_that_are_not_there_at_once_are_refused(first: int, end: int) -> None:
    with pytest.raises(ValueError, match="not at once in a cache of 13 cells"):
        runs(first, end, 13)


def test_a_copy_has_no_part_beyond_its_end() -> None:
    cache = CpuBackend(threads=1).cache(slots=1, cells=8, kv_heads=1, key_dim=4, value_dim=4)
    copy = cache.save(0, 2, 6)
    assert copy.nbytes == 2 * (16 * 4 + 4 * 4)
    for end in (1, 7):
        with pytest.raises(ValueError, match="positions 2 to 6 has no part"):
            cache.restore(0, copy, end)
