"""A replay in pieces of about a given time, for passes that would keep other lanes waiting: those of a picture.

A command's rows do not depend on how many are computed at a time, so a long command is cut by its rows: each piece is
the same command with its pointers moved on. The bits are those of a replay in one go.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golem_host.devices.cpu.lowering import Step
from golem_host.devices.plan import row_bytes
from golem_host.kernels.library import Op as Kernel
from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    from golem_host.devices.cpu.program import Program

GRAIN = 48
"""Rows of a piece are a multiple of this where they can be: products take weights once for that many."""

_ROW_BY_ROW = {
    Kernel.ACT, Kernel.MATMUL, Kernel.RMS_NORM, Kernel.LAYER_NORM, Kernel.ROPE, Kernel.GATE, Kernel.ADD, Kernel.MUL,
    Kernel.SCALE, Kernel.COPY, Kernel.SELECT, Kernel.FULL_ATTN, Kernel.CONV2D,
}  # fmt: skip
_READ_WHOLE: dict[Kernel | None, set[int]] = {Kernel.SELECT: {1}, Kernel.FULL_ATTN: {2, 3}, Kernel.CONV2D: {1}}
"""Pointers that every piece reads from the beginning."""
_FIRST_ROW: dict[Kernel | None, int] = {Kernel.FULL_ATTN: 5, Kernel.CONV2D: 5}
"""The integer that says which row a piece begins at."""
_LINE: dict[Kernel | None, int] = {Kernel.CONV2D: 2}
"""The integer that says of how many rows a piece is a multiple."""


@dataclass
class _Unit:
    """Steps that run together: one, products of one input, or a torch twin (`commands` is None)."""

    steps: list[Step]
    commands: Any
    seconds_per_row: float = 0.0

    @property
    def grain(self) -> int:
        step = self.steps[0]
        return GRAIN if step.kernel not in _LINE else step.ints[_LINE[step.kernel]]

    @property
    def cuttable(self) -> bool:
        return self.commands is not None and all(step.kernel in _ROW_BY_ROW for step in self.steps)


class Slices:
    """Made by `Program.slices`. The program must not be replayed otherwise until it is done."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._units = _units(program)
        self._at = 0
        self._row = 0

    @property
    def done(self) -> bool:
        return self._at == len(self._units)

    def advance(self, seconds: float) -> None:
        """Go on for about so many seconds, by one piece at least."""
        until = time.monotonic() + seconds
        while not self.done:
            self._run_piece(until)
            if time.monotonic() >= until:
                return

    def _run_piece(self, until: float) -> None:
        unit = self._units[self._at]
        begun = time.monotonic()
        live = self._program.live_rows(unit.steps[0])
        rows = live - self._row
        if unit.commands is None:
            self._program.run_twin(unit.steps[0])
        elif not unit.cuttable:
            self._program.run_native(unit.commands, len(unit.steps))
        elif rows:
            rows = min(rows, self._fitting(unit, until - begun))
            self._run_rows(unit, self._row, rows)
            unit.seconds_per_row = (time.monotonic() - begun) / rows
        self._row += rows
        if self._row >= live:
            self._at, self._row = self._at + 1, 0

    def _fitting(self, unit: _Unit, seconds: float) -> int:
        """Rows that take about so long, as many as the first piece of a command when nothing is known of it."""
        if not unit.seconds_per_row:
            return unit.grain
        return max(1, int(seconds / unit.seconds_per_row) // unit.grain) * unit.grain

    def _run_rows(self, unit: _Unit, first: int, rows: int) -> None:
        ffi = self._program.ffi
        count = len(unit.steps)
        piece = ffi.new("golem_cmd[]", count)
        ffi.memmove(piece, unit.commands, ffi.sizeof("golem_cmd") * count)
        for command, step in zip(piece, unit.steps, strict=True):
            command.axis, command.rows = -1, rows
            whole = _READ_WHOLE.get(step.kernel, ())
            for slot, pointer in enumerate(step.pointers):
                if isinstance(pointer, Ref) and slot not in whole:
                    command.p[slot] = ffi.cast("char *", command.p[slot]) + first * row_bytes(pointer)
            if step.kernel in _FIRST_ROW:
                command.i[_FIRST_ROW[step.kernel]] = first
        self._program.run_native(piece, count)


def _units(program: Program) -> list[_Unit]:
    units: list[_Unit] = []
    for stretch in program.stretches:
        if isinstance(stretch, Step):
            units.append(_Unit([stretch], None))
            continue
        going_on = False
        for at, step in enumerate(stretch.steps):
            if going_on:
                units[-1].steps.append(step)
            else:
                units.append(_Unit([step], stretch.commands + at))
            going_on = step.with_next
    return units
