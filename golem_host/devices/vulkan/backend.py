"""What a Vulkan device offers to models: programs, caches, recurrent states, and their weights in its memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from golem_host.devices.device import WIDEST_PASS
from golem_host.devices.vulkan.angles import Angles
from golem_host.devices.vulkan.cache import VulkanCache
from golem_host.devices.vulkan.errors import OutOfDeviceMemory
from golem_host.devices.vulkan.failures import device_errors
from golem_host.devices.vulkan.lower import Lowered, lower
from golem_host.devices.vulkan.program import Program
from golem_host.devices.vulkan.state import VulkanState
from golem_host.devices.vulkan.weights import DeviceWeights, wanted_by
from golem_host.errors import InternalError
from golem_host.ops.recording import Recording
from golem_host.ops.rope import RopeAngles
from golem_host.ops.slot_cache import CacheType
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu
    from golem_host.devices.vulkan.memory import View


class VulkanBackend:
    """Compiles recordings for `gpu`. `widest_pass` is the most columns that a pass should have."""

    widest_pass = WIDEST_PASS

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.weights = DeviceWeights(gpu)
        self._scratch: WeakKeyDictionary[Tensor, View] = WeakKeyDictionary()
        """By a weight of the model it was taken for: given back when no model needs it."""
        self._scratch_lock = threading.Lock()
        self._angles: WeakValueDictionary[tuple[RopeAngles, Tensor | None], Angles] = WeakValueDictionary()

    @property
    def arithmetic(self) -> str:
        """What decides the bits of results beside the inputs: where it is the same, so are they."""
        return f"vulkan {self.gpu.physical.uuid} {self.gpu.physical.driver}"

    @property
    def lost(self) -> bool:
        """Whether the device failed for good; another backend may work."""
        return self.gpu.dead

    def prepare(self, recording: Recording, progress: Callable[[float], None]) -> None:
        """Upload the weights that `recording` reads, make its pipelines, and take the memory that its tensors need.

        `progress` takes the share done. May run beside a pass, on any thread. Raises InternalError with the numbers,
        before anything is uploaded, when the device has no room or the pass is too wide for it; DeviceFailed when it
        fails.
        """
        with device_errors(self.gpu):
            self._prepare(recording, progress)

    def _prepare(self, recording: Recording, progress: Callable[[float], None]) -> None:
        lowered = lower(self.gpu, recording)
        most = self.gpu.limits.workgroup_counts
        for each in lowered.dispatches:
            if any(count > limit for count, limit in zip(each.grid, most, strict=True)):
                raise InternalError(
                    f"a pass of {each.axis.capacity} rows is too wide for {self.gpu.physical.name}: {each.kernel} "
                    f"would take {each.grid} workgroups of {most}; put this model on the cpu"
                )
        wanted = wanted_by(lowered.dispatches)
        weights = self.weights.missing_bytes(wanted)
        working = 0 if self._held(lowered.scratch_bytes) else lowered.scratch_bytes
        room = self.room()
        if weights + working > room:
            raise InternalError(
                f"it does not fit {self.gpu.physical.name}: its weights take {_mib(weights)} there and a pass takes "
                f"{_mib(working)}, {_mib(room)} are free beside its caches; put "
                "fewer of a chat model's layers there (--vulkan-layers), or take a smaller file"
            )
        self.scratch(lowered)
        self.weights.take(wanted, progress)
        for dispatch in lowered.dispatches:
            self.gpu.kernel(dispatch.kernel, dispatch.constants)
        self.gpu.save_pipelines()

    def room(self) -> int:
        """Bytes that can still be allocated in the device's memory."""
        return self.gpu.available(self.gpu.memory_type(0xFFFFFFFF, False).heap)

    def compile(self, recording: Recording) -> Program:
        with device_errors(self.gpu):
            return Program(self, recording)

    def cache(
        self, *, slots: int, cells: int, kv_heads: int, key_dim: int, value_dim: int, type: CacheType = CacheType.F16
    ) -> VulkanCache:
        """Keys and values of one layer; see `VulkanCache`. Raises InternalError when the device has no room,
        DeviceFailed when it fails.
        """
        with self._taking(f"keys and values for {slots} slots of {cells} positions", "context or the number of slots"):
            return VulkanCache(
                self.gpu,
                slots=slots,
                cells=cells,
                kv_heads=kv_heads,
                key_dim=key_dim,
                value_dim=value_dim,
                type=type,
            )

    def state(self, *, slots: int, shape: tuple[int, ...]) -> VulkanState:
        """Recurrent state of one layer; see `VulkanState`. Raises InternalError when the device has no room,
        DeviceFailed when it fails.
        """
        with self._taking(f"states of {slots} slots", "number of slots"):
            return VulkanState(self.gpu, slots=slots, shape=shape)

    @contextmanager
    def _taking(self, what: str, lower: str) -> Iterator[None]:
        with device_errors(self.gpu):
            try:
                yield
            except OutOfDeviceMemory as error:
                raise InternalError(f"{what} do not fit: {error}; lower the {lower}") from error

    def angles(self, op: RopeAngles, factors: Tensor | None) -> Angles:
        """The angles of an operation, which all its programs share."""
        made = self._angles.get((op, factors))
        if made is None:
            made = self._angles[op, factors] = Angles(op, factors)
        return made

    def scratch(self, lowered: Lowered, *, own: bool = False) -> View:
        """Memory for the tensors of a pass: shared by all programs, which run one at a time, if it is not its `own`."""
        size = max(1, lowered.scratch_bytes)  # a pass that only stores keeps nothing
        view = None if own else self._held(size)
        if view is None:
            view = self.gpu.arena(expected=size).take(size)
        if not own:
            with self._scratch_lock:
                for each in wanted_by(lowered.dispatches)[:1]:
                    self._scratch[each.tensor] = view
        return view

    def _held(self, size: int) -> View | None:
        """The largest memory there is for such tensors, where it is as large."""
        with self._scratch_lock:  # models are loaded beside passes
            largest = max(self._scratch.values(), key=lambda view: view.bytes, default=None)
        return largest if largest is not None and largest.bytes >= size else None


def _mib(size: int) -> str:
    return f"{-(-size >> 20)} MiB"
