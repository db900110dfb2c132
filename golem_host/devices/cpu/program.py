"""A compiled recording: an arena, a parameter block, and stretches of native commands with torch twins between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cpu.lowering import Lowering, Step, Transposed, Vector
from golem_host.devices.cpu.rates import Rates
from golem_host.devices.cpu.slices import Slices, Unit, units_of
from golem_host.devices.cpu.together import together
from golem_host.devices.plan import ALIGNMENT, plan, size_of
from golem_host.ops.recording import DTYPES, Axis, Recording, Ref
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    from golem_host.devices.cpu.backend import CpuBackend


@dataclass(frozen=True)
class Native:
    """Native commands that follow each other, and the steps they were made of."""

    commands: Any
    steps: Sequence[Step]


def steps_of(backend: CpuBackend, recording: Recording) -> list[Step]:
    """What the commands of a recording become on this processor, in their order."""
    lowering = Lowering(backend.kernels, backend.resident)
    for command in recording.commands:
        lowering.lower(command)
    return together(lowering.steps)


def kept_of(recording: Recording) -> list[Ref]:
    """The tensors that are readable after a replay."""
    named = recording.names.values() if recording.keep_names else ()
    return [*recording.outputs.values(), *named]


class Program:
    """A pass that can be replayed: fill `inputs`, `run`, read `output`.

    `inputs[name]` is an array of the input's full capacity; a replay reads its first live rows. `nbytes` is what it
    computes in.
    """

    def __init__(self, backend: CpuBackend, recording: Recording, beside: Program | None = None) -> None:
        self._backend = backend
        self._recording = recording
        self._axes = {axis: index for index, axis in enumerate(recording.axes)}
        self._steps = steps_of(backend, recording)
        given = [] if beside is None else beside._pieces
        self.rates = Rates() if beside is None else beside.rates  # those beside are of layers of the same kind
        offsets, size = plan(self._steps, kept_of(recording), outside=recording.inputs.values())
        sizes = [size, *map(size_of, recording.inputs.values())]
        self._pieces = [_reused(given, index, size) for index, size in enumerate(sizes)]
        self.nbytes = sum(map(len, self._pieces))
        arena, *inputs = self._pieces
        self._memory: dict[Ref, NDArray[np.uint8]] = dict(zip(recording.inputs.values(), inputs, strict=True))
        self._memory |= {ref: arena[at : at + size_of(ref)] for ref, at in offsets.items()}
        self._arrays: dict[Ref, NDArray[Any]] = {}
        self.inputs = {name: self._array(ref) for name, ref in recording.inputs.items()}
        self._outputs = {name: (self._array(ref), self._axes[ref.axis]) for name, ref in recording.outputs.items()}
        self._live = np.zeros(max(1, len(self._axes)), np.int64)
        self._keep_alive: list[Any] = []
        self.stretches = self._compile()

    def run(self, live: Mapping[str, int]) -> None:
        """Replay with that many live rows on each axis, by name. Raises ValueError for a count over the capacity."""
        self._set_live(live)
        for stretch in self.stretches:
            if isinstance(stretch, Step):
                self.run_twin(stretch)
            else:
                self.run_native(stretch.commands, len(stretch.steps))

    def slices(self, live: Mapping[str, int]) -> Slices:
        """The same replay in pieces, between which other programs of the device may run. Raises as `run` does."""
        self._set_live(live)
        return Slices(self)

    @cached_property
    def units(self) -> list[Unit]:
        """The steps as `slices` takes them."""
        return units_of(self)

    def run_native(self, commands: Any, count: int) -> None:
        self._backend.pool.run(commands, count, self._live_pointer)

    def live_rows(self, axis: Axis) -> int:
        """How many rows there are of an axis, as the replay was told."""
        return int(self._live[self._axes[axis]])

    def output(self, name: str) -> NDArray[Any]:
        """The live rows of an output, as a view that the next replay overwrites."""
        array, axis = self._outputs[name]
        return array[: self._live[axis]]

    def read(self, name: str) -> NDArray[Any]:
        """The live rows of a named intermediate (copied). Raises ValueError when names were not kept."""
        if not self._recording.keep_names:
            raise ValueError("intermediates are readable only in recordings made with keep_names=True")
        return self._rows(self._recording.names[name]).copy()

    def _set_live(self, live: Mapping[str, int]) -> None:
        for index, axis in enumerate(self._recording.axes):
            rows = live[axis.name]
            if not 0 <= rows <= axis.capacity:
                raise ValueError(f"{rows} rows on axis {axis.name!r}, which was recorded for {axis.capacity}")
            self._live[index] = rows

    # Compilation

    def _compile(self) -> list[Native | Step]:
        stretches: list[Native | Step] = []
        native: list[Step] = []
        for step in [*self._steps, None]:
            if step is not None and step.command is None:
                native.append(step)
                continue
            if native:
                stretches.append(Native(self._native(native), native))
                native = []
            if step is not None:
                stretches.append(step)
        if self._backend.kernels is not None:
            self.ffi = self._backend.kernels.ffi
            self._live_pointer = self.ffi.cast("int64_t *", self._live.ctypes.data)
        return stretches

    def _native(self, steps: list[Step]) -> Any:
        assert self._backend.kernels is not None
        ffi = self._backend.kernels.ffi
        commands = ffi.new("golem_cmd[]", len(steps))
        for command, step in zip(commands, steps, strict=True):
            command.op = step.kernel
            command.axis = self._axes[step.axis]
            command.rows = step.axis.capacity
            for slot, pointer in enumerate(step.pointers):
                command.p[slot] = ffi.cast("void *", self._address(pointer))
            for slot, value in enumerate(step.ints):
                command.i[slot] = int(value)
            if step.with_next:
                command.i[4] = 1
            for slot, value in enumerate(step.floats):
                command.f[slot] = value
            if step.live_axis is not None:
                slot, axis = step.live_axis
                command.i[slot] = self._axes[axis]
        return commands

    def _address(self, pointer: Any) -> int:
        if pointer is None:
            return 0
        if isinstance(pointer, Ref):
            array: NDArray[Any] = self._memory[pointer.root]
        elif isinstance(pointer, Vector):
            array = self._backend.vector(pointer.tensor)
        elif isinstance(pointer, Transposed):
            array = self._backend.transposed(pointer.tensor)
        elif isinstance(pointer, Tensor):
            array = pointer.data
        else:
            array = pointer
        self._keep_alive.append(array)
        return array.ctypes.data

    # Arrays of tensors

    def _array(self, ref: Ref) -> NDArray[Any]:
        if ref not in self._arrays:
            dtype = DTYPES[ref.dtype]
            values = self._memory[ref.root].view(dtype)[: ref.axis.capacity * ref.width]
            self._arrays[ref] = values.reshape(ref.axis.capacity, *ref.shape)
        return self._arrays[ref]

    def _rows(self, ref: Ref) -> NDArray[Any]:
        return self._array(ref)[: self._live[self._axes[ref.axis]]]

    # Twins

    def run_twin(self, step: Step) -> None:
        import torch

        assert step.command is not None
        if not self._live[self._axes[step.axis]]:
            return
        inputs = [torch.from_numpy(self._rows(each)) if isinstance(each, Ref) else each for each in step.command.inputs]
        with torch.no_grad():
            result = step.command.op.twin(*inputs)
        if step.writes is not None:
            rows = self._rows(step.writes)
            rows[...] = result.reshape(rows.shape).numpy()


def _reused(given: Sequence[NDArray[np.uint8]], index: int, size: int) -> NDArray[np.uint8]:
    """The memory at that index where there is some and it is large enough, else new."""
    return given[index] if index < len(given) and len(given[index]) >= size else _empty(size)


def _empty(size: int) -> NDArray[np.uint8]:
    """`size` bytes that start at an aligned address."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
