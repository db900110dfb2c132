"""Keys and values of one layer in device memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cells import CellCopy, blocks, runs
from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.failures import device_errors
from golem_host.ops.slot_cache import CacheType

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu
    from golem_host.devices.vulkan.memory import View


BLOCK_CELLS = 32
"""Cells whose keys are interleaved, so that neighbouring threads read neighbouring words (`shaders/cells.glsl`)."""


class VulkanCache:
    """Keys and values of every slot in half precision; a position lives in cell `position % cells`.

    `keys` shows float16 (slots, kv_heads, blocks, key_dim / 2, 32, 2), pairs of dimensions of the 32 cells of a block
    after one another; `values` shows (slots, kv_heads, cells, value_dim), cell by cell. A shader reads two of them as
    one uint32. Cells that were never written are zeros.

    Raises ValueError for a type other than `f16`, for heads of an odd number of values, and when one binding cannot
    show all keys or values; OutOfDeviceMemory when there is no room for them.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        slots: int,
        cells: int,
        kv_heads: int,
        key_dim: int,
        value_dim: int,
        type: CacheType = CacheType.F16,
    ) -> None:
        if type is not CacheType.F16:
            raise ValueError(f"a Vulkan device keeps keys and values as f16 only, not as {type.value}")
        if key_dim % 2 or value_dim % 2:
            raise ValueError(f"heads of {key_dim} and {value_dim} values: a Vulkan device takes even numbers only")
        most = gpu.limits.storage_buffer_range
        self.blocks = -(-cells // BLOCK_CELLS)
        sizes = [2 * slots * kv_heads * n for n in (self.blocks * BLOCK_CELLS * key_dim, cells * value_dim)]
        largest = max(sizes)
        if largest > most:
            raise ValueError(
                f"a layer's keys or values for {slots} slots of {cells} positions are {largest} bytes, and "
                f"{gpu.physical.name} shows a shader at most {most}: lower the context or the number of slots"
            )
        self.slots = slots
        self.cells = cells
        self.kv_heads = kv_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.type = type
        self._gpu = gpu
        self.keys, self.values = take_zeros(gpu, *sizes)

    def copy_slot(self, source: int, target: int) -> None:
        """Give `target` all that `source` holds."""
        with device_errors(self._gpu), Pass(self._gpu) as copies:
            for view in (self.keys, self.values):
                copies.copy(self._slot(view, source), self._slot(view, target), barrier=False)
            copies.end()
            copies.submit()

    def save(self, slot: int, first: int, end: int) -> CellCopy:
        """Copies, in the host's memory, of the cells of a slot's positions `first` to `end`, the last not included.

        Raises ValueError for more positions than there are cells.
        """
        parts = self._parts(slot, first, end)
        with device_errors(self._gpu):
            keys, values = (self._gpu.gather(views) for views in parts)
        return CellCopy(first, end, keys.reshape(self.kv_heads, -1), values.reshape(self.kv_heads, -1))

    def blank(self, first: int, end: int) -> CellCopy:
        """A copy as `save` makes it, without any values: to be filled with those of one that was saved before."""
        sizes = [sum(view.bytes for view in views) // self.kv_heads for views in self._parts(0, first, end)]
        keys, values = (np.empty((self.kv_heads, size), np.uint8) for size in sizes)
        return CellCopy(first, end, keys, values)

    def restore(self, slot: int, copy: CellCopy, end: int | None = None) -> None:
        """Put a copy of this layer's cells, of whichever slot, into the slot: its positions up to `end`, or all.

        Other positions of the slot may be lost: keys are put back by whole blocks.
        """
        parts = self._parts(slot, copy.first, copy.part(end))
        with device_errors(self._gpu):
            for views, rows in zip(parts, (copy.keys, copy.values), strict=True):
                taken = sum(view.bytes for view in views) // self.kv_heads
                self._gpu.scatter(views, np.ascontiguousarray(rows[:, :taken]))

    def _parts(self, slot: int, first: int, end: int) -> tuple[list[View], list[View]]:
        """What shows the keys and the values of these positions, head by head."""
        held = runs(first, end, self.cells)
        return (
            self._of_heads(self._slot(self.keys, slot), self.blocks, [blocks(run, BLOCK_CELLS) for run in held]),
            self._of_heads(self._slot(self.values, slot), self.cells, held),
        )

    def _of_heads(self, view: View, items: int, parts: list[range]) -> list[View]:
        size = view.bytes // (self.kv_heads * items)
        starts = range(0, self.kv_heads * items, items)
        return [view.slice((start + part.start) * size, len(part) * size) for start in starts for part in parts]

    def write(self, slot: int, position: int, keys: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Store `keys` (kv_heads, key_dim) and `values` (kv_heads, value_dim) of one position, rounded to half."""
        with self.on_host() as host:
            host.write(slot, position, keys, values)

    def read(self, slot: int, positions: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Keys (kv_heads, n, key_dim) and values (kv_heads, n, value_dim) at `positions` (n,) as float32."""
        with self.on_host() as host:
            return host.read(slot, positions)

    @contextmanager
    def on_host(self) -> Iterator[HostCache]:
        """The cache for a torch twin: slots are fetched when first touched, changed ones put back at the end."""
        host = HostCache(self)
        yield host
        for slot in host.changed:
            keys, values = host.held[slot]
            self._gpu.upload(self._slot(self.keys, slot), keys)
            self._gpu.upload(self._slot(self.values, slot), values)

    def fetch(self, slot: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        """Copies of one slot's keys (kv_heads, blocks, key_dim / 2, 32, 2) and values (kv_heads, cells, value_dim)."""
        keys = self._gpu.download(self._slot(self.keys, slot)).view(np.float16)
        values = self._gpu.download(self._slot(self.values, slot)).view(np.float16)
        blocks = (self.kv_heads, self.blocks, self.key_dim // 2, BLOCK_CELLS, 2)
        return keys.reshape(blocks), values.reshape(self.kv_heads, self.cells, self.value_dim)

    def _slot(self, view: View, slot: int) -> View:
        size = view.bytes // self.slots
        return view.slice(slot * size, size)


class HostCache:
    """A `VulkanCache` as torch twins use it, over copies of the slots they touch."""

    def __init__(self, cache: VulkanCache) -> None:
        self._cache = cache
        self.slots, self.cells, self.type = cache.slots, cache.cells, cache.type
        self.kv_heads, self.key_dim, self.value_dim = cache.kv_heads, cache.key_dim, cache.value_dim
        self.held: dict[int, tuple[NDArray[np.float16], NDArray[np.float16]]] = {}
        self.changed: set[int] = set()

    def write(self, slot: int, position: int, keys: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """See `VulkanCache.write`."""
        held = self._slot(slot)
        self.changed.add(slot)
        with np.errstate(over="ignore"):
            block, lane = divmod(position % self.cells, BLOCK_CELLS)
            held[0][:, block, :, lane] = keys.reshape(self.kv_heads, -1, 2)
            held[1][:, position % self.cells] = values

    def read(self, slot: int, positions: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `VulkanCache.read`."""
        keys, values = self._slot(slot)
        cells = positions % self.cells
        block, lane = np.divmod(cells, BLOCK_CELLS)
        pairs = np.moveaxis(keys[:, block, :, lane], 0, 1)
        keys = pairs.reshape(self.kv_heads, len(cells), self.key_dim)
        return keys.astype(np.float32), values[:, cells].astype(np.float32)

    def _slot(self, slot: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        if slot not in self.held:
            self.held[slot] = self._cache.fetch(slot)
        return self.held[slot]


def take_zeros(gpu: Gpu, *sizes: int) -> list[View]:
    """Views of that many bytes each, multiples of 4, in memory of their own, set to zero. Raises OutOfDeviceMemory."""
    arena = gpu.arena(expected=sum(sizes))
    views = [arena.take(size) for size in sizes]
    with Pass(gpu) as zeroing:
        for view in views:
            zeroing.fill(view, barrier=False)
        zeroing.end()
        zeroing.submit()
    return views
