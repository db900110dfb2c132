"""A compiled recording: passes recorded once and replayed, with torch twins between them where no shader computes."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.plan import row_bytes
from golem_host.devices.vulkan.block import ParameterBlock
from golem_host.devices.vulkan.cache import VulkanCache
from golem_host.devices.vulkan.checks import Checks
from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.cut import FIRST_WORK, SECONDS, cut, work_of
from golem_host.devices.vulkan.dispatch import Dispatch, Live, Transposed, Vector, Weights
from golem_host.devices.vulkan.failures import device_errors
from golem_host.devices.vulkan.lower import lower
from golem_host.devices.vulkan.memory import View
from golem_host.devices.vulkan.pipelines import Kernel
from golem_host.devices.vulkan.schedule import Step
from golem_host.devices.vulkan.state import VulkanState
from golem_host.ops.embedding import Select
from golem_host.ops.recording import DTYPES, Axis, Recording, Ref
from golem_host.ops.rope import RopeAngles

if TYPE_CHECKING:
    from golem_host.devices.vulkan.backend import VulkanBackend


@dataclass(frozen=True)
class Bound:
    """A dispatch with everything that a pass wants to know of it."""

    kernel: Kernel
    views: Sequence[View]
    push: bytes
    grid: tuple[int, int, int]


class Program:
    """A pass that can be replayed: fill `inputs`, `run`, read `output`.

    `inputs[name]` is an array of the input's full capacity; a replay reads its first live rows. Without torch twins,
    and when it is not long, a replay is one submission: it copies the inputs to the device, computes, and copies the
    outputs to memory that the host reads fast. Tensors of the pass lie in memory that all programs share, unless the
    recording keeps names.
    """

    def __init__(self, backend: VulkanBackend, recording: Recording) -> None:
        self._backend = backend
        self._gpu = gpu = backend.gpu
        self._recording = recording
        self._axes = {axis: index for index, axis in enumerate(recording.axes)}
        self._live: dict[Axis, int] = dict.fromkeys(recording.axes, 0)
        lowered = lower(gpu, recording)
        self._steps = lowered.steps
        self._by_host = lowered.given
        self._angles = {
            made: backend.angles(command.op, command.inputs[1])
            for made, command in lowered.given.items()
            if isinstance(command.op, RopeAngles)
        }
        self._checks = Checks.of([*lowered.on_device, *lowered.given.values()], recording.inputs.values())
        self._checked = self._checks.inputs
        host = gpu.arena(host=True)
        self._block = ParameterBlock(gpu, host, recording, lowered.given)
        self.inputs = self._block.inputs
        scratch = backend.scratch(lowered, own=recording.keep_names)
        self._views = dict(self._block.views)
        self._views |= {ref: scratch.slice(at, _bytes(ref)) for ref, at in lowered.offsets.items()}
        self._outputs = {name: host.take(_bytes(ref)) for name, ref in recording.outputs.items()}
        self._bound = {id(step): self._bind(step.dispatch) for step in self._steps if step.dispatch is not None}
        self._work = sum(work_of(dispatch) for dispatch in lowered.dispatches)
        self._pieces = max(1, math.ceil(self._work / FIRST_WORK))
        self.record()

    @property
    def commands(self) -> int:
        """Dispatches, and torch twins, of a replay."""
        return len(self._steps)

    def run(self, live: Mapping[str, int]) -> None:
        """Replay with that many live rows on each axis, by name.

        Raises ValueError for a count over the capacity, IndexError for an input that names a row, slot or position that
        is not there (nothing has been computed then), DeviceFailed when the device fails.
        """
        for axis in self._axes:
            rows = live[axis.name]
            if not 0 <= rows <= axis.capacity:
                raise ValueError(f"{rows} rows on axis {axis.name!r}, which was recorded for {axis.capacity}")
            self._live[axis] = rows
        self._checks.check({ref: self._given(ref) for ref in self._checked}, self._live)
        self._gather()
        self._block.send(self._live)
        started = time.perf_counter()
        with device_errors(self._gpu):
            tick = 0
            try:
                for part in self._parts:
                    if isinstance(part, Pass):
                        tick = part.submit()
                    else:
                        self._run_twin(part)
            finally:  # also when a twin raises: what is in flight reads the block that the next replay writes
                self._gpu.wait(tick)
            self._fit(time.perf_counter() - started)

    def output(self, name: str) -> NDArray[Any]:
        """The live rows of an output, as a view that the next replay overwrites."""
        ref = self._recording.outputs[name]
        return _rows(self._outputs[name].array, ref, self._live[ref.axis])

    def read(self, name: str) -> NDArray[Any]:
        """The live rows of a named intermediate (copied). Raises ValueError when names were not kept."""
        if not self._recording.keep_names:
            raise ValueError("intermediates are readable only in recordings made with keep_names=True")
        return self._fetch(self._recording.names[name]).copy()

    # Recording

    def _bind(self, dispatch: Dispatch) -> Bound:
        """Look up kernel and views, uploading weights that `prepare` did not."""
        kernel = self._gpu.kernel(dispatch.kernel, dispatch.constants)
        push = b"".join(self._word(number) for number in dispatch.numbers)
        return Bound(kernel, [self._view(each) for each in dispatch.buffers], push, dispatch.grid)

    def _word(self, number: int | float | Axis) -> bytes:
        if isinstance(number, Axis):
            number = self._axes[number]
        return struct.pack("<f" if isinstance(number, float) else "<i", number)

    def _view(self, each: Any) -> View:
        if isinstance(each, Ref):
            return self._views[each.root]
        if isinstance(each, Weights | Vector | Transposed):
            return self._backend.weights.view(each)
        return self._block.live if isinstance(each, Live) else each

    def record(self) -> None:
        """Record the passes, and note between them the steps that run as twins; the first and the last are passes."""
        stretches: list[list[Step]] = [[]]
        twins: list[Step] = []
        for step in self._steps:
            if step.dispatch is not None:
                stretches[-1].append(step)
            else:
                twins.append(step)
                stretches.append([])
        parts: list[Pass | Step] = []
        for at, stretch in enumerate(stretches):
            pieces = cut(stretch, self._work / self._pieces)
            for number, piece in enumerate(pieces):
                first = at == number == 0
                last = at == len(stretches) - 1 and number == len(pieces) - 1
                if piece or first or last:
                    parts.append(self._pass(piece, first=first, last=last))
            parts += twins[at : at + 1]
        self._parts = parts

    def _pass(self, steps: Sequence[Step], *, first: bool, last: bool) -> Pass:
        made = Pass(self._gpu)
        if first:
            made.copy(self._block.host, self._block.device)
        for step in steps:
            bound = self._bound[id(step)]
            made.dispatch(bound.kernel, bound.views, bound.push, bound.grid, barrier=not step.with_next)
        if last:
            for name, target in self._outputs.items():
                source = self._views[self._recording.outputs[name].root]
                made.copy(source, target, barrier=False)
        made.end()
        return made

    def _fit(self, seconds: float) -> None:
        """Cut the pass anew when its submissions take far longer, or were cut far smaller, than they should."""
        pieces = max(1, math.ceil(seconds / SECONDS))
        twins = any(isinstance(part, Step) for part in self._parts)
        if not twins and not self._pieces / 2 <= pieces <= self._pieces * 2:
            self._pieces = pieces
            self.record()

    # Tensors on the host

    def _gather(self) -> None:
        """Put angles, their positions, and the rows of tables that stay in the file where the inputs are."""
        for made, command in self._by_host.items():
            if made in self._angles:
                self._given(made)[:] = self._angles[made].at(self._given(command.inputs[0]))
            elif isinstance(command.op, Select):
                x, index = map(self._given, command.inputs)
                self._given(made)[:] = x[index]
            else:
                table, ids = command.inputs
                self._given(made)[:] = table.gathered(self._given(ids))

    def _given(self, ref: Ref) -> NDArray[Any]:
        return self._block.arrays[ref][: self._live[ref.axis]]

    def _fetch(self, ref: Ref) -> NDArray[Any]:
        """The live rows of a tensor."""
        live = self._live[ref.axis]
        if ref.root in self._block.arrays:
            return self._given(ref.root).reshape(live, *ref.shape)
        if not live:
            return np.empty((0, *ref.shape), DTYPES[ref.dtype])
        rows = self._gpu.download(self._views[ref.root].slice(0, live * row_bytes(ref)))
        return _rows(rows, ref, live)

    def _run_twin(self, step: Step) -> None:
        import torch

        assert step.command is not None
        command = step.command
        axis = step.reads[-1].axis if step.writes is None else step.writes.axis
        if not self._live[axis]:
            return
        with ExitStack() as fetched, torch.no_grad():
            inputs: list[Any] = []
            for each in command.inputs:
                if isinstance(each, Ref):
                    inputs.append(torch.from_numpy(self._fetch(each)))
                elif isinstance(each, VulkanCache | VulkanState):
                    inputs.append(fetched.enter_context(each.on_host()))
                else:
                    inputs.append(each)
            result = command.op.twin(*inputs)
        if step.writes is not None:
            dtype = DTYPES[step.writes.dtype]
            rows = np.ascontiguousarray(result.numpy(), dtype).reshape(self._live[axis], *step.writes.shape)
            self._gpu.upload(self._views[step.writes.root].slice(0, rows.nbytes), rows)


def _bytes(ref: Ref) -> int:
    return row_bytes(ref) * ref.axis.capacity


def _rows(raw: NDArray[np.uint8], ref: Ref, live: int) -> NDArray[Any]:
    return raw[: live * row_bytes(ref)].view(DTYPES[ref.dtype]).reshape(live, *ref.shape)
