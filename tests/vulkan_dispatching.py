"""Runs what lowering functions return, with memory of its own for every tensor: no plan, nothing shared, no program."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.plan import row_bytes
from golem_host.devices.vulkan import layouts
from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering, Vector, Weights
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.memory import View
from golem_host.ops.recording import DTYPES, Axis, Recording, Ref

_GUARD = 256
"""Bytes behind every buffer, all bits set: written, they fail the test; read, they are NaN."""


@dataclass(frozen=True)
class Facts:
    """A device as lowering sees it, some of it other than it is."""

    limits: Any
    subgroup_size: int
    features: Any


def facts(gpu: Gpu, *, idot: bool | None = None, shared_memory: int | None = None) -> Facts:
    """What `gpu` is, perhaps without what it can."""
    features = gpu.features if idot is None else replace(gpu.features, idot=idot and gpu.features.idot)
    limits = gpu.limits if shared_memory is None else replace(gpu.limits, shared_memory=shared_memory)
    return Facts(limits, gpu.subgroup_size, features)


@dataclass(frozen=True)
class Ran:
    """A recording that was run: `output` is all rows of what it gave, `tensor` reads any tensor of the pass."""

    output: NDArray[Any]
    dispatches: list[Dispatch]
    tensor: Callable[[Ref], NDArray[Any]]


def run(
    gpu: Gpu,
    lower: dict[type, Lower],
    build: Callable[..., Ref],
    inputs: dict[str, NDArray[Any]],
    *,
    capacity: int | None = None,
    seen: Facts | None = None,
    max_binding: int | None = None,
) -> Ran:
    """Record `build(**inputs)` for `capacity` rows, lower it and run it. Memory that is not written has all bits set,
    which is NaN.
    """
    rows = len(next(iter(inputs.values())))
    recording = Recording()
    axis = recording.axis("rows", capacity or rows)
    refs = {
        name: recording.input(name, axis, *value.shape[1:], dtype="i32" if value.dtype == np.int32 else "f32")
        for name, value in inputs.items()
    }
    out = build(**refs)
    low = Lowering(seen or facts(gpu), recording, max_binding or gpu.limits.storage_buffer_range)
    dispatches: list[Dispatch] = []
    for command in recording.commands:
        made = lower[type(command.op)](low, command.op, command.output, *command.inputs)
        assert made is not None, f"{command.op} was not lowered"
        dispatches += low.taken() + made
    memory = _Memory(gpu, recording.axes)
    for name, value in inputs.items():
        memory.fill(refs[name], value)
    memory.live(rows)
    with Pass(gpu) as made:
        for each in dispatches:
            views = [memory.view(buffer) for buffer in each.buffers]
            made.dispatch(gpu.kernel(each.kernel, each.constants), views, memory.push(each.numbers), each.grid)
        made.end()
        gpu.wait(made.submit())
    memory.check()

    def tensor(ref: Ref) -> NDArray[Any]:
        return gpu.download(memory.view(ref)).view(DTYPES[ref.dtype]).reshape(ref.axis.capacity, *ref.shape)

    return Ran(tensor(out), dispatches, tensor)


def compute(
    gpu: Gpu, lower: dict[type, Lower], build: Callable[..., Ref], inputs: dict[str, NDArray[Any]], **how: Any
) -> NDArray[Any]:
    """The live rows of what `run` gives."""
    return run(gpu, lower, build, inputs, **how).output[: len(next(iter(inputs.values())))]


class _Memory:
    def __init__(self, gpu: Gpu, axes: list[Axis]) -> None:
        self._gpu, self._axes = gpu, axes
        self._arena = gpu.arena()
        self._views: dict[Any, View] = {}
        self._guards: list[View] = []

    def fill(self, ref: Ref, value: NDArray[Any]) -> None:
        view = self.view(ref)
        whole = np.full(view.bytes, 0xFF, np.uint8)
        whole[: value.nbytes] = np.ascontiguousarray(value).view(np.uint8).reshape(-1)
        self._gpu.upload(view, whole)

    def live(self, rows: int) -> None:
        self._put(LIVE, np.full(len(self._axes), rows, np.int32).view(np.uint8))

    def push(self, numbers: list[int | float | Axis]) -> bytes:
        plain = [self._axes.index(each) if isinstance(each, Axis) else each for each in numbers]
        return b"".join(struct.pack("f" if isinstance(each, float) else "i", each) for each in plain)

    def view(self, buffer: Any) -> View:
        key = buffer.root if isinstance(buffer, Ref) else buffer
        if key not in self._views:
            if isinstance(buffer, Ref):
                self._put(key, np.full(row_bytes(key) * key.axis.capacity, 0xFF, np.uint8))
            elif isinstance(buffer, Weights):
                self._put(key, np.concatenate(list(layouts.laid(buffer.tensor, buffer.tiles, buffer.kind))))
            else:
                assert isinstance(buffer, Vector)
                self._put(key, buffer.tensor.float32().reshape(-1).view(np.uint8))
        return self._views[key]

    def check(self) -> None:
        """Nothing was written behind any buffer."""
        for guard in self._guards:
            assert (self._gpu.download(guard) == 0xFF).all(), "written behind a buffer"

    def _put(self, key: Any, data: NDArray[np.uint8]) -> None:
        whole = self._arena.take(data.nbytes + _GUARD)
        self._views[key] = view = whole.slice(0, data.nbytes)
        self._guards.append(whole.slice(data.nbytes, _GUARD))
        self._gpu.upload(view, data)
        self._gpu.upload(self._guards[-1], np.full(_GUARD, 0xFF, np.uint8))
