"""Where each tensor of a pass lies in the arena: tensors whose lives do not overlap share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from golem_host.devices.cpu.lowering import Step
from golem_host.ops.recording import DTYPES, Ref

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def row_bytes(ref: Ref) -> int:
    return ref.width * DTYPES[ref.dtype].itemsize


def size_of(ref: Ref) -> int:
    """Bytes of a tensor at full capacity, rounded up to the alignment."""
    return -(-row_bytes(ref) * ref.axis.capacity // ALIGNMENT) * ALIGNMENT


def plan(steps: Sequence[Step], kept: Iterable[Ref]) -> tuple[dict[Ref, int], int]:
    """Offsets in the arena by root tensor, and the arena's size in bytes.

    `kept` stay readable to the end of the pass (outputs, named intermediates). A step's output takes over the memory of
    an input it may work in place on, when nothing reads that input later. Steps that run at the same time share no
    memory. First fit in order of birth.
    """
    last = _last_uses(steps, kept)
    offsets: dict[Ref, int] = {}
    free: list[tuple[int, int]] = []
    given_up: list[Ref] = []
    size = 0
    for now, step in enumerate(steps):
        out = step.writes.root if step.writes is not None else None
        dying = [ref for ref in {read.root for read in step.reads} if ref in offsets and last[ref] == now]
        taken_over = None
        if out is not None and out not in offsets:
            reusable = {ref.root for ref in step.in_place}
            taken_over = next((ref for ref in dying if ref in reusable and size_of(ref) == size_of(out)), None)
            if taken_over is not None:
                offsets[out] = offsets[taken_over]
            else:
                offsets[out], size = _take(free, size_of(out), size)
            if out not in last:
                last[out] = now
                dying.append(out)
        given_up += [ref for ref in dying if ref is not taken_over]
        if not step.with_next:
            for ref in given_up:
                _give(free, offsets[ref], size_of(ref))
            given_up.clear()
    return offsets, size


def _last_uses(steps: Sequence[Step], kept: Iterable[Ref]) -> dict[Ref, int]:
    last = {read.root: at for at, step in enumerate(steps) for read in step.reads}
    for ref in kept:
        last[ref.root] = len(steps)
    return last


def _take(free: list[tuple[int, int]], wanted: int, size: int) -> tuple[int, int]:
    for index, (offset, room) in enumerate(free):
        if room >= wanted:
            if room == wanted:
                free.pop(index)
            else:
                free[index] = (offset + wanted, room - wanted)
            return offset, size
    if free and free[-1][0] + free[-1][1] == size:
        offset, _ = free.pop()
        return offset, offset + wanted
    return size, size + wanted


def _give(free: list[tuple[int, int]], offset: int, size: int) -> None:
    free.append((offset, size))
    free.sort()
    merged: list[tuple[int, int]] = []
    for at, room in free:
        if merged and merged[-1][0] + merged[-1][1] == at:
            merged[-1] = (merged[-1][0], merged[-1][1] + room)
        else:
            merged.append((at, room))
    free[:] = merged
