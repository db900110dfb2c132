"""What a loaded model remembers of its conversations: caches and recurrent states of every slot, and copies of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from golem_host.devices.cells import CellCopy
from golem_host.devices.device import WIDEST_PASS
from golem_host.devices.state import Checkpoint
from golem_host.ops import CacheType
from golem_host_chat.families import CacheSpec, Family, StateSpec
from golem_host_chat.slots import Held, Layout, Ring, Slot


@dataclass(frozen=True)
class SlotCopy:
    """What a slot remembered after `position` positions: of each cache, in their order, the cells that were copied or
    None, and all recurrent states.
    """

    position: int
    cells: tuple[CellCopy | None, ...] = ()
    states: tuple[Checkpoint, ...] = ()

    @property
    def nbytes(self) -> int:
        cells = sum(each.nbytes for each in self.cells if each is not None)
        return cells + sum(each.values.nbytes for each in self.states)


class SlotMemory:
    """Caches of type `kv_type` and recurrent states for `slots` conversations of `context` positions each.

    Sliding caches have room for a pass of `widest` columns beside their window. Copies lie in the host's memory,
    whatever the device. Copying and restoring happens between passes, on the device thread.
    """

    def __init__(
        self, family: Family, backend: Any, *, slots: int, context: int, widest: int, kv_type: CacheType
    ) -> None:
        self._specs = family.caches()
        cells = [cells_of(spec, context, widest) for spec in self._specs]
        self._kv_type = kv_type
        self.caches: list[Any] = [
            backend.cache(
                slots=slots,
                cells=count,
                kv_heads=spec.kv_heads,
                key_dim=spec.key_dim,
                value_dim=spec.value_dim,
                type=kv_type,
            )
            for spec, count in zip(self._specs, cells, strict=True)
        ]
        state_specs = family.states()
        self.states: list[Any] = [backend.state(slots=slots, shape=spec.shape) for spec in state_specs]
        self._state_bytes = state_bytes(state_specs, slots=1)
        self._rings = [
            Ring(spec.window, count) if count < context else None
            for spec, count in zip(self._specs, cells, strict=True)
        ]
        rings = {(ring.window, ring.cells): ring for ring in self._rings if ring is not None}
        self.layout = Layout(tuple(rings[size] for size in sorted(rings)), bool(self.states))

    def copy_slot(self, source: int, target: int) -> None:
        """Give slot `target` everything slot `source` remembers."""
        for each in (*self.caches, *self.states):
            each.copy_slot(source, target)

    def checkpoint(self, slot: Slot) -> SlotCopy:
        """What its tokens alone do not bring back: the windows of rings at the next position, and the states."""
        end = len(slot.tokens)
        return self._copy(slot.index, self._window_firsts(end), end)

    def copy_whole(self, slot: Slot) -> SlotCopy:
        """Everything that the slot remembers of its tokens."""
        return self._copy(slot.index, self._whole_firsts(slot), len(slot.tokens))

    def blank_checkpoint(self, position: int) -> SlotCopy:
        """As `checkpoint` makes it, without any values."""
        return self._blank(self._window_firsts(position), position)

    def blank_whole(self, held: Held) -> SlotCopy:
        """As `copy_whole` makes it of a slot that holds this, without any values."""
        return self._blank(self._whole_firsts(held), len(held.tokens))

    def shape(self) -> list[tuple[Any, ...]]:
        """What one slot's caches and states are: copies fit where all of it is the same."""
        caches = [(each.cells, each.kv_heads, each.key_dim, each.value_dim, each.type.value) for each in self.caches]
        return [*caches, *(tuple(each.shape) for each in self.states)]

    def restore(self, slot: int, copy: SlotCopy, end: int | None = None) -> None:
        """Put a copy, of whichever slot, into slot `slot`. `end`: no more positions than that are needed."""
        for cache, ring, cells in zip(self.caches, self._rings, copy.cells, strict=True):
            if cells is not None:
                cache.restore(slot, cells, end if ring is None else None)
        for state, checkpoint in zip(self.states, copy.states, strict=True):
            state.restore(slot, checkpoint)

    def whole_bytes(self, positions: int) -> int:
        """About what a whole copy of a slot of so many positions takes: no more than it does."""
        cells = [positions if ring is None else min(positions, ring.window) for ring in self._rings]
        rows = [row_bytes(spec, self._kv_type) for spec in self._specs]
        return sum(count * size for count, size in zip(cells, rows, strict=True)) + self._state_bytes

    def clear(self) -> None:
        """Let go of caches and states, whoever still holds this object."""
        self.caches.clear()
        self.states.clear()

    def _window_firsts(self, end: int) -> list[int | None]:
        return [None if ring is None else max(0, end - ring.window + 1) for ring in self._rings]

    def _whole_firsts(self, held: Held) -> list[int]:
        return [0 if ring is None else held.intact(ring) for ring in self._rings]

    def _blank(self, firsts: Sequence[int | None], end: int) -> SlotCopy:
        return SlotCopy(
            end,
            tuple(
                None if first is None else cache.blank(first, end)
                for cache, first in zip(self.caches, firsts, strict=True)
            ),
            tuple(Checkpoint(end, np.empty(state.shape, np.float32)) for state in self.states),
        )

    def _copy(self, slot: int, firsts: Sequence[int | None], end: int) -> SlotCopy:
        return SlotCopy(
            end,
            tuple(
                None if first is None else cache.save(slot, first, end)
                for cache, first in zip(self.caches, firsts, strict=True)
            ),
            tuple(state.save(slot) for state in self.states),
        )


def cells_of(spec: CacheSpec, context: int, widest: int) -> int:
    """Positions a layer keeps for one slot: all of them, or its window beside the widest pass."""
    return min(context, spec.window + widest) if spec.window else context


def row_bytes(spec: CacheSpec, kv_type: CacheType) -> int:
    """Bytes of the keys and values of one position."""
    return spec.kv_heads * (kv_type.row_bytes(spec.key_dim) + kv_type.row_bytes(spec.value_dim))


def cache_bytes(specs: Sequence[CacheSpec], *, slots: int, context: int, kv_type: CacheType) -> int:
    """Bytes of keys and values for all slots, on a device whose passes are of the usual width."""
    return sum(slots * cells_of(spec, context, WIDEST_PASS) * row_bytes(spec, kv_type) for spec in specs)


def state_bytes(specs: Sequence[StateSpec], *, slots: int) -> int:
    """Bytes of the recurrent states of all slots."""
    return 4 * slots * sum(math.prod(spec.shape) for spec in specs)


def checkpoint_bytes(
    caches: Sequence[CacheSpec], states: Sequence[StateSpec], *, context: int, kv_type: CacheType
) -> int:
    """Bytes of one checkpoint: the windows of sliding caches that do not hold the whole context, and the states."""
    rings = [spec for spec in caches if cells_of(spec, context, WIDEST_PASS) < context]
    return sum(spec.window * row_bytes(spec, kv_type) for spec in rings) + state_bytes(states, slots=1)
