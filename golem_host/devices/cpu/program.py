"""A compiled recording: an arena, a parameter block, and stretches of native commands with torch twins between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cpu.lowering import Lowering, Step, Transposed, Vector
from golem_host.devices.cpu.together import together
from golem_host.devices.plan import ALIGNMENT, plan, size_of
from golem_host.ops.recording import DTYPES, Recording, Ref
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    from golem_host.devices.cpu.backend import CpuBackend


class Program:
    """A pass that can be replayed: fill `inputs`, `run`, read `output`.

    `inputs[name]` is an array of the input's full capacity; a replay reads its first live rows.
    """

    def __init__(self, backend: CpuBackend, recording: Recording) -> None:
        self._backend = backend
        self._recording = recording
        self._axes = {axis: index for index, axis in enumerate(recording.axes)}
        lowering = Lowering(backend.kernels, backend.resident)
        for command in recording.commands:
            lowering.lower(command)
        self._steps = together(lowering.steps)
        kept = list(recording.outputs.values())
        if recording.keep_names:
            kept += recording.names.values()
        inputs = {ref: _empty(size_of(ref)) for ref in recording.inputs.values()}
        offsets, size = plan(self._steps, kept, outside=inputs)
        arena = _empty(size)
        self._memory: dict[Ref, NDArray[np.uint8]] = dict(inputs)
        self._memory |= {ref: arena[at : at + size_of(ref)] for ref, at in offsets.items()}
        self._arrays: dict[Ref, NDArray[Any]] = {}
        self.inputs = {name: self._array(ref) for name, ref in recording.inputs.items()}
        self._outputs = {name: (self._array(ref), self._axes[ref.axis]) for name, ref in recording.outputs.items()}
        self._live = np.zeros(max(1, len(self._axes)), np.int64)
        self._keep_alive: list[Any] = []
        self._stretches = self._compile()

    def run(self, live: Mapping[str, int]) -> None:
        """Replay with that many live rows on each axis, by name. Raises ValueError for a count over the capacity."""
        for index, axis in enumerate(self._recording.axes):
            rows = live[axis.name]
            if not 0 <= rows <= axis.capacity:
                raise ValueError(f"{rows} rows on axis {axis.name!r}, which was recorded for {axis.capacity}")
            self._live[index] = rows
        for stretch in self._stretches:
            if isinstance(stretch, Step):
                self._run_twin(stretch)
            else:
                commands, count = stretch
                self._backend.pool.run(commands, count, self._live_pointer)

    def output(self, name: str) -> NDArray[Any]:
        """The live rows of an output, as a view that the next replay overwrites."""
        array, axis = self._outputs[name]
        return array[: self._live[axis]]

    def read(self, name: str) -> NDArray[Any]:
        """The live rows of a named intermediate (copied). Raises ValueError when names were not kept."""
        if not self._recording.keep_names:
            raise ValueError("intermediates are readable only in recordings made with keep_names=True")
        return self._rows(self._recording.names[name]).copy()

    # Compilation

    def _compile(self) -> list[Any]:
        stretches: list[Any] = []
        native: list[Step] = []
        for step in [*self._steps, None]:
            if step is not None and step.command is None:
                native.append(step)
                continue
            if native:
                stretches.append((self._native(native), len(native)))
                native = []
            if step is not None:
                stretches.append(step)
        if self._backend.kernels is not None:
            ffi = self._backend.kernels.ffi
            self._live_pointer = ffi.cast("int64_t *", self._live.ctypes.data)
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

    def _run_twin(self, step: Step) -> None:
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


def _empty(size: int) -> NDArray[np.uint8]:
    """`size` bytes that start at an aligned address."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
