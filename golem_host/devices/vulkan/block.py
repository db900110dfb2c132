"""The parameter block: what differs between replays, written by the host and copied to the device by each replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.plan import row_bytes
from golem_host.ops.recording import DTYPES, Axis, Recording, Ref

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu
    from golem_host.devices.vulkan.memory import Arena, View


class ParameterBlock:
    """The live rows of each axis (int32), then each input of a recording, and each of `further` tensors, at its full
    capacity.

    `host` and `device` are where a replay copies from and to. `inputs` are arrays in ordinary memory, so that reading
    them is fast whatever kind of memory the driver shares; `send` copies all of it to `host`.
    """

    def __init__(self, gpu: Gpu, host: Arena, recording: Recording, further: Iterable[Ref] = ()) -> None:
        self._axes = recording.axes
        align = max(gpu.limits.storage_buffer_alignment, 16)
        size = _up(4 * max(1, len(self._axes)), align)
        self._live = slice(0, 4 * max(1, len(self._axes)))
        places: dict[Ref, slice] = {}
        for ref in (*recording.inputs.values(), *further):
            bytes = row_bytes(ref) * ref.axis.capacity
            places[ref] = slice(size, size + bytes)
            size = _up(size + bytes, align)
        self._array = np.zeros(size, np.uint8)
        self._counts = self._array[self._live].view(np.int32)
        self.host = host.take(size)
        self.device = gpu.arena(expected=size).take(size)
        self.live = self._shown(self._live)
        self.views: dict[Ref, View] = {ref: self._shown(place) for ref, place in places.items()}
        self.arrays: dict[Ref, NDArray[Any]] = {
            ref: self._array[place].view(DTYPES[ref.dtype]).reshape(ref.axis.capacity, *ref.shape)
            for ref, place in places.items()
        }
        self.inputs = {name: self.arrays[ref] for name, ref in recording.inputs.items()}

    def send(self, live: Mapping[Axis, int]) -> None:
        """Put what the next replay is to read where it copies from; no replay may be running."""
        self._counts[: len(self._axes)] = [live[axis] for axis in self._axes]
        self.host.array[:] = self._array

    def _shown(self, place: slice) -> View:
        return self.device.slice(place.start, place.stop - place.start)


def _up(size: int, align: int) -> int:
    return -(-size // align) * align
