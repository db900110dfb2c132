"""Recurrent state of one layer in device memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.state import Checkpoint
from golem_host.devices.vulkan.cache import take_zeros
from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.failures import device_errors

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu
    from golem_host.devices.vulkan.memory import View


class VulkanState:
    """`values` shows float32 (slots, *shape); `taken` int32 (slots,), how many positions each slot's state has seen, is
    kept on the host, where passes are checked before they are submitted.

    Raises ValueError when one binding cannot show all values, OutOfDeviceMemory when there is no room for them.
    """

    def __init__(self, gpu: Gpu, *, slots: int, shape: tuple[int, ...]) -> None:
        size = 4 * slots * math.prod(shape)
        if size > gpu.limits.storage_buffer_range:
            raise ValueError(
                f"a layer's state for {slots} slots is {size} bytes, and {gpu.physical.name} shows a shader at most "
                f"{gpu.limits.storage_buffer_range}: lower the number of slots"
            )
        self.slots = slots
        self.shape = shape
        self._gpu = gpu
        (self.values,) = take_zeros(gpu, size)
        self.taken: NDArray[np.int32] = np.zeros(slots, np.int32)

    def copy_slot(self, source: int, target: int) -> None:
        """Give `target` what `source` holds."""
        with device_errors(self._gpu), Pass(self._gpu) as copies:
            copies.copy(self._slot(source), self._slot(target))
            copies.end()
            copies.submit()
        self.taken[target] = self.taken[source]

    def read(self, slot: int) -> NDArray[np.float32]:
        """A copy of the slot's values, of shape `shape`."""
        with device_errors(self._gpu):
            return self._gpu.download(self._slot(slot)).view(np.float32).reshape(self.shape)

    def save(self, slot: int) -> Checkpoint:
        """A copy of what the slot holds."""
        return Checkpoint(int(self.taken[slot]), self.read(slot))

    def restore(self, slot: int, checkpoint: Checkpoint) -> None:
        """Put a checkpoint of this layer, of whichever slot, into the slot: its next row is the checkpoint's position.

        Raises ValueError for one of another shape.
        """
        checkpoint.check(self.shape)
        with device_errors(self._gpu):
            self._gpu.upload(self._slot(slot), checkpoint.values)
        self.taken[slot] = checkpoint.position

    @contextmanager
    def on_host(self) -> Iterator[HostState]:
        """The state for a torch twin: fetched whole, and put back at the end."""
        values = self._gpu.download(self.values).view(np.float32).reshape(self.slots, *self.shape)
        host = HostState(self.slots, self.shape, values, self.taken)
        yield host
        self._gpu.upload(self.values, host.values)

    def _slot(self, slot: int) -> View:
        size = self.values.bytes // self.slots
        return self.values.slice(slot * size, size)


@dataclass
class HostState:
    """A `VulkanState` as torch twins use it: `values` are a copy, `taken` the state's own."""

    slots: int
    shape: tuple[int, ...]
    values: NDArray[np.float32]
    taken: NDArray[np.int32]
