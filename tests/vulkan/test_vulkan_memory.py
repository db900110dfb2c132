"""Arenas, views, and bytes to and from them."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from golem_host.devices.vulkan import memory, transfer
from golem_host.devices.vulkan.errors import OutOfDeviceMemory
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.physical import Heap, PhysicalDevice


def _claimed(gpu: Gpu) -> int:
    gc.collect()
    return sum(size for _, size in gpu._claims.values())


def test_views_are_aligned_and_do_not_overlap(gpu: Gpu) -> None:
    arena = gpu.arena()
    views = [arena.take(bytes) for bytes in (1, 17, 4096, 3)]
    alignment = gpu.limits.storage_buffer_alignment
    assert all(view.offset % alignment == 0 for view in views)
    ends = [view.offset + view.bytes for view in views]
    assert all(end <= view.offset for end, view in zip(ends[:-1], views[1:], strict=True))
    assert [view.bytes for view in views] == [1, 17, 4096, 3]


def test_a_slice_stays_inside(gpu: Gpu) -> None:
    view = gpu.arena().take(100).slice(10, 50)
    assert (view.offset % 16, view.bytes) == (10, 50)
    for offset, bytes in ((-1, 5), (0, 51), (50, 1), (0, 0)):
        with pytest.raises(ValueError, match="bytes"):
            view.slice(offset, bytes)


def test_chunks_stay_within_what_can_be_allocated(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "limits", replace(gpu.limits, allocation=100_000))
    arena = gpu.arena(expected=250_000)
    views = [arena.take(60_000) for _ in range(3)]
    assert len({view.buffer for view in views}) == 3
    assert all(view.buffer.size <= 100_000 for view in views)
    with pytest.raises(ValueError, match="cannot take 100001 bytes at once: 1 to 100000 can be"):
        arena.take(100_001)
    with pytest.raises(ValueError, match="cannot take 0 bytes"):
        arena.take(0)


def test_an_expected_size_is_allocated_and_no_more(gpu: Gpu) -> None:
    arena = gpu.arena(expected=3 * 2**20)
    for _ in range(3):
        arena.take(2**20)
    assert arena.bytes == 3 * 2**20


def test_memory_is_given_back_by_free_and_by_the_collector(gpu: Gpu) -> None:
    before = _claimed(gpu)
    arena = gpu.arena()
    arena.take(5000)
    assert _claimed(gpu) > before
    arena.free()
    arena.free()
    assert _claimed(gpu) == before
    view = gpu.arena().take(5000)
    assert _claimed(gpu) > before
    del view
    assert _claimed(gpu) == before


def test_an_array_keeps_its_memory(gpu: Gpu) -> None:
    before = _claimed(gpu)
    array = gpu.arena(host=True).take(5000).array[100:200]
    assert _claimed(gpu) > before
    array[:] = 7
    assert int(array.sum()) == 700
    del array
    assert _claimed(gpu) == before


def test_what_does_not_fit_is_refused_with_the_numbers(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    heap = Heap(size=100 * 2**20, budget=50 * 2**20, used=0, device_local=True)
    monkeypatch.setattr(PhysicalDevice, "heaps", lambda self: [heap])
    monkeypatch.setattr(gpu, "_claims", {})
    monkeypatch.setattr(gpu, "features", replace(gpu.features, memory_budget=False))
    arena = gpu.arena()
    arena.take(30 * 2**20)
    with pytest.raises(OutOfDeviceMemory, match="has 20 MiB of memory left, 30 MiB more are needed"):
        arena.take(30 * 2**20)
    arena.take(15 * 2**20)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("size", [1, 1000, 3 * 4096 + 5])
def test_bytes_come_back(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, size: int, mapped: bool) -> None:
    monkeypatch.setattr(transfer, "STAGE", 4096)
    # Staging buffers of the size set here, not those of an earlier test.
    monkeypatch.setattr(gpu, "_transfer", transfer.Transfer(gpu))
    arena = gpu.arena()
    views = [arena.take(size) for _ in range(3)]
    kept = views[0].buffer.array  # the memory is given back with its array
    if not mapped:
        views[0].buffer.array = None
    assert kept is not None
    assert views[0].mapped is mapped
    data = [np.random.default_rng(i).integers(0, 256, size, np.uint8) for i in range(3)]
    done: list[int] = []
    gpu.upload(views[0], data[0])
    gpu.upload(views[1], data[1].tobytes(), done.append)
    gpu.upload(views[2], data[2].reshape(1, -1))
    for view, expected in zip(views, data, strict=True):
        np.testing.assert_array_equal(gpu.download(view), expected)
    assert done == [*range(4096, size, 4096), size]


@pytest.mark.parametrize("mapped", [True, False])
def test_bytes_of_many_views_go_and_come_together(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, mapped: bool) -> None:
    monkeypatch.setattr(transfer, "STAGE", 100)
    monkeypatch.setattr(gpu, "_transfer", transfer.Transfer(gpu))
    whole = gpu.arena().take(1000)
    kept = whole.buffer.array
    if not mapped:
        whole.buffer.array = None
    assert kept is not None
    views = [whole.slice(start, size) for start, size in ((700, 30), (0, 90), (100, 250), (500, 100), (40 + 350, 1))]
    data = np.random.default_rng(1).integers(0, 256, sum(view.bytes for view in views), np.uint8)
    gpu.upload(whole, np.zeros(1000, np.uint8))
    gpu.scatter(views, data)
    np.testing.assert_array_equal(gpu.gather(views), data)
    np.testing.assert_array_equal(gpu.download(views[2]), data[120:370])
    assert np.count_nonzero(gpu.download(whole)) == np.count_nonzero(data)
    assert gpu.gather([]).size == 0


def test_memory_the_host_cannot_see_has_no_array(gpu: Gpu) -> None:
    view = gpu.arena().take(16)
    kept, view.buffer.array = view.buffer.array, None
    assert kept is not None
    with pytest.raises(ValueError, match="use Gpu.upload and Gpu.download"):
        _ = view.array


def test_uploads_of_another_size_or_with_gaps_are_refused(gpu: Gpu) -> None:
    view = gpu.arena().take(16)
    with pytest.raises(ValueError, match="15 bytes for a view of 16"):
        gpu.upload(view, bytes(15))
    with pytest.raises(ValueError, match="only contiguous"):
        gpu.upload(view, np.zeros(32, np.uint8)[::2])


def test_chunks_double_so_that_many_small_takes_are_few_allocations(gpu: Gpu) -> None:
    arena = gpu.arena()
    for _ in range(40):
        arena.take(memory.FIRST_CHUNK // 4)
    assert len(arena._chunks) == 4
