"""A replay in pieces of about a given time, for passes that would keep other lanes waiting: those of a picture.

A command's rows do not depend on how many are computed at a time, so a long command is cut by its rows: each piece is
the same command with its pointers moved on. A product is cut by its outputs within blocks of rows, so that its weights,
which may be hundreds of megabytes, are read once for each block. The bits are those of a replay in one go.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from golem_host.devices.cpu.lowering import Step
from golem_host.devices.plan import row_bytes
from golem_host.kernels.library import Op as Kernel
from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    from golem_host.devices.cpu.program import Program

GRAIN = 48
"""Rows of a piece are a multiple of this."""
ATTENTION_GRAIN = 144
"""Of attention, which lays its keys out once for that many."""
LEAST = 12
"""Where that many take too long: the rows that a product takes at a time."""
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
_WITH_NEXT, _FIRST_OUTPUT, _OUTPUTS = 4, 6, 7
"""Integers of a product."""
_LINE: dict[Kernel | None, int] = {Kernel.CONV2D: 2}
"""The integer that says of how many rows a piece is a multiple."""


@dataclass
class Unit:
    """A step; `commands` is None for a torch twin. `rate` is seconds per row, of products per row and output, as the
    last piece took them; 0 before there was one.
    """

    step: Step
    commands: Any
    rate: float = 0.0

    @property
    def outputs(self) -> int:
        """Of a product."""
        return self.step.ints[0]


class Slices:
    """Made by `Program.slices`. The program must not be replayed otherwise until it is done."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._units = program.units
        self._at = 0
        self._row = 0
        self._output = 0

    @property
    def done(self) -> bool:
        return self._at == len(self._units)

    def advance(self, seconds: float) -> None:
        """Go on for about so many seconds, by one piece at least; what little is left of them is not used."""
        until = time.monotonic() + seconds
        while not self.done:
            self._run_piece(until)
            if time.monotonic() >= until - REST * seconds:
                return

    def _run_piece(self, until: float) -> None:
        unit = self._units[self._at]
        live = self._program.live_rows(unit.step)
        rows = live - self._row
        if unit.commands is None:
            self._program.run_twin(unit.step)
        elif unit.step.kernel not in _ROW_BY_ROW:
            self._program.run_native(unit.commands, 1)
        elif rows and unit.step.kernel is Kernel.MATMUL:
            rows = self._multiply(unit, min(rows, _even(live)), until)
        elif rows:
            begun = time.monotonic()
            rows = min(rows, _rows_within(unit, until - begun))
            self._run_rows(unit, rows)
            unit.rate = (time.monotonic() - begun) / rows
        self._row += rows
        if self._row >= live:
            self._at, self._row = self._at + 1, 0

    def _multiply(self, unit: Unit, rows: int, until: float) -> int:
        """Some outputs of `rows` rows; how many rows are whole then."""
        begun = time.monotonic()
        fitting = int((until - begun) / (unit.rate * rows)) if unit.rate else 0
        left = unit.outputs - self._output
        count = left if fitting >= (1 - REST) * left else min(max(1, fitting // OUTPUTS) * OUTPUTS, left)
        self._run_rows(unit, rows, {_FIRST_OUTPUT: self._output, _OUTPUTS: count})
        unit.rate = (time.monotonic() - begun) / (rows * count)
        self._output += count
        if self._output < unit.outputs:
            return 0
        self._output = 0
        return rows

    def _run_rows(self, unit: Unit, rows: int, ints: Mapping[int, int] = MappingProxyType({})) -> None:
        ffi, step = self._program.ffi, unit.step
        [command] = piece = ffi.new("golem_cmd[]", 1)
        ffi.memmove(piece, unit.commands, ffi.sizeof("golem_cmd"))
        command.axis, command.rows = -1, rows
        whole = _READ_WHOLE.get(step.kernel, ())
        for slot, pointer in enumerate(step.pointers):
            if isinstance(pointer, Ref) and slot not in whole:
                command.p[slot] = ffi.cast("char *", command.p[slot]) + self._row * row_bytes(pointer)
        if step.kernel in _FIRST_ROW:
            command.i[_FIRST_ROW[step.kernel]] = self._row
        if step.kernel is Kernel.MATMUL:
            command.i[_WITH_NEXT] = 0
        for slot, value in ints.items():
            command.i[slot] = value
        self._program.run_native(piece, 1)


def _even(rows: int) -> int:
    """Rows of a product's piece where all pieces have about as many."""
    each = -(-rows // -(-rows // BLOCK_ROWS))
    return -(-each // LEAST) * LEAST


def _rows_within(unit: Unit, seconds: float) -> int:
    """Rows that take about so long; as few as can be when nothing is known of the command."""
    kernel = unit.step.kernel
    fitting = int(seconds / unit.rate) if unit.rate else 0
    grain = unit.step.ints[_LINE[kernel]] if kernel in _LINE else GRAIN
    if kernel is Kernel.FULL_ATTN:
        grain = ATTENTION_GRAIN if fitting >= ATTENTION_GRAIN else LEAST
    return max(1, fitting // grain) * grain


def units_of(program: Program) -> list[Unit]:
    """A program's steps, which keep from replay to replay how long they take."""
    units: list[Unit] = []
    for stretch in program.stretches:
        if isinstance(stretch, Step):
            units.append(Unit(stretch, None))
        else:
            units += [Unit(step, stretch.commands + at) for at, step in enumerate(stretch.steps)]
    return units
