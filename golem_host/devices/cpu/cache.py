"""Keys and values of one layer in host memory, laid out as the kernels read them (`kernels/src/attention.h`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cells import CellCopy, blocks, runs
from golem_host.ops.slot_cache import CacheType

BLOCK_CELLS = 16
"""Cells whose keys are interleaved."""


class CpuCache:
    """Keys and values of every slot and position; a position lives in cell `position % cells`.

    Keys lie in blocks of 16 cells (`keys[slots, kv_heads, block, ...]`), one dimension of all of them after another;
    values lie cell by cell (`values[slots, kv_heads, cell, ...]`). `f16`: half precision; `f32`: single precision.
    `q8_0`: uint8, the codes of a block or cell, then the scale of each 32 dimensions in half precision. Memory is
    taken from the system page by page as cells are first written.

    Raises ValueError when a head is not whole blocks of 32 (`q8_0`).
    """

    def __init__(
        self, *, slots: int, cells: int, kv_heads: int, key_dim: int, value_dim: int, type: CacheType = CacheType.F16
    ) -> None:
        self.slots = slots
        self.cells = cells
        self.kv_heads = kv_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.type = type
        type.check(key_dim)
        type.check(value_dim)
        blocks = -(-cells // BLOCK_CELLS)
        self.keys: NDArray[Any]
        self.values: NDArray[Any]
        if type is not CacheType.Q8_0:
            kind = np.float16 if type is CacheType.F16 else np.float32
            self.keys = np.zeros((slots, kv_heads, blocks, key_dim, BLOCK_CELLS), kind)
            self.values = np.zeros((slots, kv_heads, cells, value_dim), kind)
        else:
            key_bytes, value_bytes = type.row_bytes(key_dim), type.row_bytes(value_dim)
            self.keys = np.zeros((slots, kv_heads, blocks, BLOCK_CELLS * key_bytes), np.uint8)
            self.values = np.zeros((slots, kv_heads, cells, value_bytes), np.uint8)

    def copy_slot(self, source: int, target: int) -> None:
        """Give `target` all that `source` holds."""
        self.keys[target] = self.keys[source]
        self.values[target] = self.values[source]

    def save(self, slot: int, first: int, end: int) -> CellCopy:
        """Copies of the cells of a slot's positions `first` to `end`, the last not included.

        Raises ValueError for more positions than there are cells.
        """
        held = runs(first, end, self.cells)
        keys = [self.keys[slot, :, each.start : each.stop] for each in (blocks(run, BLOCK_CELLS) for run in held)]
        values = [self.values[slot, :, run.start : run.stop] for run in held]
        none = range(0)
        return CellCopy(
            first,
            end,
            np.concatenate(keys or [self.keys[slot, :, none]], axis=1),
            np.concatenate(values or [self.values[slot, :, none]], axis=1),
        )

    def blank(self, first: int, end: int) -> CellCopy:
        """A copy as `save` makes it, without any values: to be filled with those of one that was saved before."""
        held = runs(first, end, self.cells)
        blocks_held = sum(len(blocks(run, BLOCK_CELLS)) for run in held)
        return CellCopy(
            first,
            end,
            np.empty((self.kv_heads, blocks_held, *self.keys.shape[3:]), self.keys.dtype),
            np.empty((self.kv_heads, end - first, *self.values.shape[3:]), self.values.dtype),
        )

    def restore(self, slot: int, copy: CellCopy, end: int | None = None) -> None:
        """Put a copy of this layer's cells, of whichever slot, into the slot: its positions up to `end`, or all.

        Other positions of the slot may be lost: keys are put back by whole blocks.
        """
        keys = values = 0
        for run in runs(copy.first, copy.part(end), self.cells):
            held = blocks(run, BLOCK_CELLS)
            self.keys[slot, :, held.start : held.stop] = copy.keys[:, keys : keys + len(held)]
            self.values[slot, :, run.start : run.stop] = copy.values[:, values : values + len(run)]
            keys, values = keys + len(held), values + len(run)

    def write(self, slot: int, position: int, keys: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Store `keys` (kv_heads, key_dim) and `values` (kv_heads, value_dim) of one position, rounded to the type."""
        cell = position % self.cells
        block, lane = divmod(cell, BLOCK_CELLS)
        if self.type is not CacheType.Q8_0:
            with np.errstate(over="ignore"):
                self.keys[slot, :, block, :, lane] = keys
                self.values[slot, :, cell] = values
            return
        codes, scales = _quantized(keys)
        key_codes, key_scales = self._key_parts()
        key_codes[slot, :, block, :, lane] = codes.reshape(self.kv_heads, -1, 4)
        key_scales[slot, :, block, :, lane] = scales
        codes, scales = _quantized(values)
        self.values[slot, :, cell, : self.value_dim] = codes.view(np.uint8)
        self.values[slot, :, cell, self.value_dim :] = scales.view(np.uint8)

    def read(self, slot: int, positions: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Keys (kv_heads, n, key_dim) and values (kv_heads, n, value_dim) at `positions` (n,) as float32."""
        cells = positions % self.cells
        block, lane = np.divmod(cells, BLOCK_CELLS)
        if self.type is not CacheType.Q8_0:
            keys = np.moveaxis(self.keys[slot][:, block, :, lane], 0, 1)
            return keys.astype(np.float32), self.values[slot][:, cells].astype(np.float32)
        key_codes, key_scales = self._key_parts()
        codes = np.moveaxis(key_codes[slot][:, block, :, lane], 0, 1).reshape(self.kv_heads, len(cells), -1)
        keys = _dequantized(codes, np.moveaxis(key_scales[slot][:, block, :, lane], 0, 1))
        stored = self.values[slot][:, cells]
        codes, scales = stored[..., : self.value_dim].view(np.int8), stored[..., self.value_dim :]
        return keys, _dequantized(codes, np.ascontiguousarray(scales).view(np.float16))

    def _key_parts(self) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
        """Views of q8_0 keys: codes (slots, kv_heads, blocks, key_dim / 4, 16, 4), scales (..., key_dim / 32, 16)."""
        lead, codes = self.keys.shape[:3], BLOCK_CELLS * self.key_dim
        return (
            self.keys[..., :codes].view(np.int8).reshape(*lead, self.key_dim // 4, BLOCK_CELLS, 4),
            self.keys[..., codes:].view(np.float16).reshape(*lead, self.key_dim // 32, BLOCK_CELLS),
        )


def _quantized(x: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Codes (rows, n) and scales (rows, n / 32) of `x` (rows, n), as ggml quantizes to q8_0 on x86.

    A value that is not finite makes the scale of its block NaN.
    """
    blocks = x.reshape(len(x), -1, 32)
    with np.errstate(all="ignore"):
        largest = np.abs(blocks).max(-1)
        inverse = np.float32(127) / largest
        sound = np.isfinite(largest) & np.isfinite(inverse)
        codes = np.where(sound[..., None], np.minimum(np.rint(blocks * inverse[..., None]), 127), 0)
        scales = np.where(np.isfinite(largest), np.where(sound, largest / np.float32(127), 0), np.nan)
    return codes.astype(np.int8).reshape(x.shape), scales.astype(np.float16)


def _dequantized(codes: NDArray[np.int8], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    """`codes` (..., n) times the `scales` (..., n / 32) of their blocks."""
    return codes.astype(np.float32) * np.repeat(scales.astype(np.float32), 32, -1)
