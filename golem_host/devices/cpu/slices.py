"""A replay in pieces of about a given time, for passes that would keep other lanes waiting: those of a picture.

A command's rows do not depend on how many are computed at a time, so a long command is cut by its rows: each piece is
the same command with its pointers moved on. A product is cut by its outputs within blocks of rows, so that its weights,
which may be hundreds of megabytes, are read once for each block; attention by its kv heads first, whose keys and values
are laid out for each piece. The bits are those of a replay in one go.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golem_host.devices.cpu.lowering import Step
from golem_host.devices.cpu.rates import Key
from golem_host.devices.plan import row_bytes
from golem_host.kernels.library import Op as Kernel
from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    from golem_host.devices.cpu.program import Program

GRAIN = 48
"""Rows of a piece are a multiple of this."""
ATTENTION_GRAIN = 144
"""Of attention, which takes that many at a time."""
LEAST = 12
"""Where that many take too long."""
BLOCK_ROWS = 540
"""The most rows of a product's piece."""
OUTPUTS = 128
"""Outputs of a product's piece are a multiple of this: whole tiles of every type."""

REST = 0.15
"""Of the time that is given: what would take less is not begun when so little is left, and not put off either."""

_ROW_BY_ROW = {
    Kernel.ACT, Kernel.MATMUL, Kernel.RMS_NORM, Kernel.LAYER_NORM, Kernel.ROPE, Kernel.GATE, Kernel.ADD, Kernel.MUL,
    Kernel.SCALE, Kernel.COPY, Kernel.SELECT, Kernel.FULL_ATTN, Kernel.CONV2D,
}  # fmt: skip
_READ_WHOLE: dict[Kernel | None, set[int]] = {Kernel.SELECT: {1}, Kernel.FULL_ATTN: {2, 3}, Kernel.CONV2D: {1}}
"""Pointers that every piece reads from the beginning."""
_FIRST_ROW: dict[Kernel | None, int] = {Kernel.FULL_ATTN: 5, Kernel.CONV2D: 5}
"""The integer that says which row a piece begins at."""
_PARTS: dict[Kernel | None, tuple[int, int]] = {Kernel.MATMUL: (6, 7), Kernel.FULL_ATTN: (8, 9)}
"""The integers that say which output or kv head a piece begins with, and how many it has."""
_WITH_NEXT = 4
"""The integer of a product that lets it run at the same time as the next."""
_KV_HEADS, _CAUSAL = 1, 6
"""Integers of attention."""
_LINE: dict[Kernel | None, int] = {Kernel.CONV2D: 2}
"""The integer that says of how many rows a piece is a multiple."""


@dataclass(frozen=True)
class Unit:
    """A step; `commands` is None for a torch twin. Steps of the same `key` take about as long for the same work."""

    step: Step
    commands: Any
    key: Key


@dataclass(frozen=True)
class Piece:
    """`rows` rows of a unit from `row` on; of its outputs or kv heads, where it has such, `parts` from `part` on."""

    unit: Unit
    row: int
    rows: int
    part: int
    parts: int
    work: int
    """What its time is about in proportion to."""


class Slices:
    """Made by `Program.slices`. The program must not be replayed otherwise until it is done.

    After an exception it cannot go on.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._units = program.units
        self._at = 0
        self._row = 0
        self._part = 0

    @property
    def done(self) -> bool:
        return self._at == len(self._units)

    def advance(self, seconds: float) -> None:
        """Go on for about so many seconds, by one piece at least; what little is left of them is not used."""
        until = time.monotonic() + seconds
        while not self.done:
            unit = self._units[self._at]
            if unit.commands is None:
                self._program.run_twin(unit.step)
                self._at += 1
            elif pieces := self._cut(until - time.monotonic(), REST * seconds):
                self._run(pieces)
            if time.monotonic() >= until - REST * seconds:
                return

    def _cut(self, seconds: float, rest: float) -> list[Piece]:
        """The next pieces: one, and more as long as they are known to leave more than the rest of that time. They run
        together, as threads that wait for the next command only shortly stay awake for it.
        """
        pieces: list[Piece] = []
        while not self.done:
            unit = self._units[self._at]
            if self._program.live_rows(unit.step.axis) == 0:
                self._at += 1
                continue
            if unit.commands is None:
                break
            rate = self._program.rates.of(unit.key)
            if pieces and (rate == 0 or seconds <= rest):
                break
            pieces.append(self._next(unit, int(seconds / rate) if rate and seconds > 0 else 0))
            if rate == 0:
                break
            seconds -= rate * pieces[-1].work
        return pieces

    def _next(self, unit: Unit, fitting: int) -> Piece:
        """The next piece of a unit, as much of its work as is `fitting` or the least that there can be."""
        step, live, row, part, parts = unit.step, self._program.live_rows(unit.step.axis), self._row, self._part, 1
        if step.kernel is Kernel.MATMUL:  # all outputs of some rows first
            rows, outputs = min(live - row, _even(live)), step.ints[0]
            parts = _whole(fitting // rows, OUTPUTS, outputs - part)
            work = rows * parts
            self._row, self._part = (row, part + parts) if part + parts < outputs else (row + rows, 0)
            done = self._row >= live
        elif step.kernel is Kernel.FULL_ATTN:  # all rows of some kv heads first
            queries, kv_heads = self._queries(step, row, fitting), step.ints[_KV_HEADS]
            rows = _whole(queries, ATTENTION_GRAIN if queries >= ATTENTION_GRAIN else LEAST, live - row)
            seen = self._seen(step, row, rows)
            if rows == live:
                parts = max(1, min(fitting // seen, kv_heads - part))
            work = seen * parts
            self._row, self._part = (row + rows, part) if row + rows < live else (0, part + parts)
            done = self._part >= kv_heads
        else:
            grain = step.ints[_LINE[step.kernel]] if step.kernel in _LINE else GRAIN
            work = rows = _whole(fitting, grain, live - row) if step.kernel in _ROW_BY_ROW else live
            self._row += rows
            done = self._row >= live
        if done:
            self._at, self._row, self._part = self._at + 1, 0, 0
        return Piece(unit, row, rows, part, parts, work)

    def _seen(self, step: Step, row: int, rows: int) -> int:
        """Keys that so many queries of attention see from `row` on, in sum."""
        assert step.live_axis is not None
        keys = max(1, self._program.live_rows(step.live_axis[1]))  # without any the kernel gives the error
        return rows * row + rows * (rows + 1) // 2 if step.ints[_CAUSAL] else rows * keys

    def _queries(self, step: Step, row: int, seen: int) -> int:
        """How many queries see so many keys in sum."""
        if step.ints[_CAUSAL]:
            return math.isqrt(row**2 + 2 * seen) - row
        return seen // self._seen(step, row, 1)

    def _run(self, pieces: Sequence[Piece]) -> None:
        ffi = self._program.ffi
        commands = ffi.new("golem_cmd[]", len(pieces))
        for at, piece in enumerate(pieces):
            self._move(commands + at, piece)
        begun = time.monotonic()
        self._program.run_native(commands, len(pieces))
        self._program.rates.learn([(piece.unit.key, piece.work) for piece in pieces], time.monotonic() - begun)

    def _move(self, command: Any, piece: Piece) -> None:
        """Make what `command` points to the unit's for a piece."""
        ffi, step, kernel = self._program.ffi, piece.unit.step, piece.unit.step.kernel
        ffi.memmove(command, piece.unit.commands, ffi.sizeof("golem_cmd"))
        if kernel not in _ROW_BY_ROW:
            return
        command.axis, command.rows = -1, piece.rows
        whole = _READ_WHOLE.get(kernel, ())
        for slot, pointer in enumerate(step.pointers):
            if piece.row and isinstance(pointer, Ref) and slot not in whole:
                command.p[slot] = ffi.cast("char *", command.p[slot]) + piece.row * row_bytes(pointer)
        if kernel in _FIRST_ROW:
            command.i[_FIRST_ROW[kernel]] = piece.row
        if kernel is Kernel.MATMUL:
            command.i[_WITH_NEXT] = 0
        if kernel in _PARTS:
            for slot, value in zip(_PARTS[kernel], (piece.part, piece.parts), strict=True):
                command.i[slot] = value


def _even(rows: int) -> int:
    """Rows of a product's piece where all pieces have about as many."""
    each = -(-rows // -(-rows // BLOCK_ROWS))
    return -(-each // LEAST) * LEAST


def _whole(fitting: int, grain: int, left: int) -> int:
    """What is left where nearly all of it is fitting, else a multiple of the grain."""
    return left if fitting >= (1 - REST) * left else min(max(1, fitting // grain) * grain, left)


def units_of(program: Program) -> list[Unit]:
    """A program's steps."""
    units: list[Unit] = []
    for stretch in program.stretches:
        if isinstance(stretch, Step):
            units.append(Unit(stretch, None, None))
        else:
            keys = [(step.kernel, *step.ints) for step in stretch.steps]
            units += [Unit(step, stretch.commands + at, keys[at]) for at, step in enumerate(stretch.steps)]
    return units
