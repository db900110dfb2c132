"""Where each tensor of a pass lies in the arena: tensors whose lives do not overlap share memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Protocol

from golem_host.ops.recording import DTYPES, Ref

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


class Planned(Protocol):
    """What the plan needs of a step; `with_next` says that it may run at the same time as the next one."""

    @property
    def reads(self) -> Sequence[Ref]: ...

    @property
    def writes(self) -> Ref | None: ...

    @property
    def in_place(self) -> Sequence[Ref]: ...

    @property
    def with_next(self) -> bool: ...


def row_bytes(ref: Ref) -> int:
    return ref.width * DTYPES[ref.dtype].itemsize


def size_of(ref: Ref, alignment: int = ALIGNMENT) -> int:
    """Bytes of a tensor at full capacity, rounded up to the alignment."""
    return -(-row_bytes(ref) * ref.axis.capacity // alignment) * alignment


def plan(
    steps: Sequence[Planned], kept: Iterable[Ref], *, outside: Iterable[Ref] = (), alignment: int = ALIGNMENT
) -> tuple[dict[Ref, int], int]:
    """Offsets in the arena by root tensor, and the arena's size in bytes.

    `kept` stay readable to the end of the pass (outputs, named intermediates); `outside` have memory of their own. The
    output of a step takes over the memory of an input it may work in place on, when nothing else reads that input at
    the same time or later. Steps that run at the same time share no other memory. First fit in order of birth.
    """
    elsewhere = {ref.root for ref in outside}
    last = _last_uses(steps, kept)
    groups = list(accumulate((not step.with_next for step in steps), initial=0))
    readers = Counter((group, root) for group, step in zip(groups, steps, strict=False) for root in _roots(step.reads))
    offsets: dict[Ref, int] = {}
    free: list[tuple[int, int]] = []
    given_up: list[Ref] = []
    size = 0
    for now, step in enumerate(steps):
        out = step.writes.root if step.writes is not None else None
        dying = [ref for ref in _roots(step.reads) if ref in offsets and last[ref] == now]
        taken_over = None
        if out is not None and out not in elsewhere and out not in offsets:
            reusable = {ref for ref in _roots(step.in_place) if readers[groups[now], ref] == 1}
            taken_over = next((ref for ref in dying if ref in reusable and size_of(ref) == size_of(out)), None)
            if taken_over is not None:
                offsets[out] = offsets[taken_over]
            else:
                offsets[out], size = _take(free, size_of(out, alignment), size)
        if out in offsets and last[out] == now:
            dying.append(out)
        given_up += [ref for ref in dying if ref is not taken_over]
        if not step.with_next:
            for ref in given_up:
                _give(free, offsets[ref], size_of(ref, alignment))
            given_up.clear()
    return offsets, size


def _roots(refs: Iterable[Ref]) -> list[Ref]:
    """The tensors whose memory is shown, each once."""
    return list(dict.fromkeys(ref.root for ref in refs))


def _last_uses(steps: Sequence[Planned], kept: Iterable[Ref]) -> dict[Ref, int]:
    last: dict[Ref, int] = {}
    for at, step in enumerate(steps):
        for ref in (*step.reads, *([] if step.writes is None else [step.writes])):
            last[ref.root] = at
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
