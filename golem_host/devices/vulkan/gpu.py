"""A Vulkan device in use: its logical device, one compute queue, memory, pipelines."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.vulkan.errors import DeviceLost, NoVulkan, OutOfDeviceMemory, check
from golem_host.devices.vulkan.facts import Facts, facts_of
from golem_host.devices.vulkan.memory import Arena, View
from golem_host.devices.vulkan.physical import FeatureChain, MemoryType, PhysicalDevice
from golem_host.devices.vulkan.pipelines import Kernel, Pipelines
from golem_host.devices.vulkan.structs import constant, struct
from golem_host.devices.vulkan.transfer import Transfer

WAIT_SECONDS = 60.0
"""How long a pass may take before waiting for it gives up."""


class Gpu:
    """A logical device on `physical`, with one compute queue that all threads may submit to.

    `limits`, `features` (all enabled) and `subgroup_size` are the device's. When the device is lost, `dead` turns true
    and every further call raises DeviceLost. Raises NoVulkan when the device misses what the host needs.
    """

    def __init__(self, physical: PhysicalDevice) -> None:
        if physical.missing:
            raise NoVulkan(f"{physical.name} cannot be used: it lacks {', '.join(physical.missing)}")
        self.physical = physical
        self.ffi, self.lib = physical.instance.ffi, physical.instance.lib
        self.limits, self.features, self.subgroup_size = physical.limits, physical.features, physical.subgroup_size
        self.dead = False
        self.closed = False
        self._queue_lock = threading.Lock()
        self._owned: list[weakref.finalize[..., Any]] = []
        self._owned_lock = threading.Lock()
        self._claims: dict[object, tuple[int, int]] = {}
        self._tick = self._finished = 0
        self.handle: Any = self._create_device()
        self._destroy = weakref.finalize(self, _destroy_device, self.lib, self.handle, self.ffi.NULL, self._owned)
        queue = self.ffi.new("VkQueue *")
        self.lib.vkGetDeviceQueue(self.handle, physical.queue_family, 0, queue)
        self._queue = queue[0]
        timeline = struct("VkSemaphoreTypeCreateInfo", semaphoreType=constant("SEMAPHORE_TYPE_TIMELINE"))
        semaphore = self.create("vkCreateSemaphore", struct("VkSemaphoreCreateInfo", pNext=timeline), "VkSemaphore")
        self.semaphore = self.ffi.new("VkSemaphore *", semaphore)
        self.own(self, self.lib.vkDestroySemaphore, self.handle, semaphore, self.ffi.NULL)
        self._pipelines = Pipelines(self)
        self._transfer = Transfer(self)

    def _create_device(self) -> Any:
        physical, ffi = self.physical, self.ffi
        chain = FeatureChain(physical)
        able = physical.features
        chain.core12.timelineSemaphore = 1
        chain.core12.shaderFloat16, chain.core12.shaderInt8 = able.fp16, able.int8
        chain.core12.storageBuffer8BitAccess = able.storage8
        chain.core11.storageBuffer16BitAccess = able.storage16
        chain.head.features.shaderInt16 = able.int16
        chain.dot.shaderIntegerDotProduct = able.idot
        wanted = ["VK_EXT_memory_budget", "VK_KHR_portability_subset"]
        if physical.version < (1, 3) and able.idot:
            wanted.append("VK_KHR_shader_integer_dot_product")
        kept = [ffi.new("char[]", name.encode()) for name in wanted if name in physical.extensions]
        names = ffi.new("char *[]", kept)
        priority = ffi.new("float[]", [1.0])
        queue = struct(
            "VkDeviceQueueCreateInfo",
            queueFamilyIndex=physical.queue_family,
            queueCount=1,
            pQueuePriorities=priority,
        )
        info = struct(
            "VkDeviceCreateInfo",
            pNext=chain.head,
            queueCreateInfoCount=1,
            pQueueCreateInfos=queue,
            enabledExtensionCount=len(kept),
            ppEnabledExtensionNames=names,
        )
        made = ffi.new("VkDevice *")
        check(self.lib.vkCreateDevice(physical.handle, info, ffi.NULL, made), "vkCreateDevice")
        return made[0]

    def check(self, code: int, call: str) -> int:
        """Pass a VkResult on that says success; raise for the others, and be dead from then on when the device is."""
        try:
            return check(code, call)
        except DeviceLost:
            self.dead = True
            raise

    def create(self, call: str, info: Any, type: str) -> Any:
        """The handle that `call(device, info, allocator, handle)` makes."""
        self.alive()
        made = self.ffi.new(f"{type} *")
        self.check(getattr(self.lib, call)(self.handle, info, self.ffi.NULL, made), call)
        return made[0]

    def alive(self) -> None:
        """Raise DeviceLost when the device is lost, ValueError when it is closed."""
        if self.closed:
            raise ValueError(f"{self.physical.name} is closed")
        if self.dead:
            raise DeviceLost(constant("ERROR_DEVICE_LOST"), self.physical.name)

    def abandon(self) -> None:
        """Count a device that hangs as lost, and leave everything as it is: what runs on it may still use that, and
        nothing can be waited for.
        """
        self.dead = True
        with self._owned_lock:
            for each in self._owned:
                each.detach()
        self._destroy.detach()

    def own(self, owner: Any, release: Callable[..., None], *arguments: Any) -> Callable[[], Any]:
        """Have `release(*arguments)` called once: by calling what this returns, when `owner` is collected, or at
        `close`, whichever is first.
        """
        made = weakref.finalize(owner, release, *arguments)
        with self._owned_lock:
            self._owned[:] = [each for each in self._owned if each.alive]
            self._owned.append(made)
        return made

    # Memory

    def memory_type(self, allowed: int, host: bool) -> MemoryType:
        """The kind of memory to allocate from, of those whose bits are set in `allowed`.

        For the host: cached, so that reading is fast. For the device: its own, and of that the kind that the host can
        write directly when that reaches all of it.
        """
        physical = self.physical
        types = [each for each in physical.memory_types if allowed >> each.index & 1]
        shared = [each for each in types if each.has("HOST_VISIBLE", "HOST_COHERENT")]
        if host:
            ranked = sorted(shared, key=lambda each: (not each.has("HOST_CACHED"), each.has("DEVICE_LOCAL")))
        else:
            heaps = physical.heaps()
            most = max((heap.size for heap in heaps if heap.device_local), default=0)
            local = [each for each in types if each.has("DEVICE_LOCAL") and heaps[each.heap].size == most]
            ranked = sorted(local, key=lambda each: (each not in shared, each.index)) or types
        if not ranked:
            raise OutOfDeviceMemory(
                constant("ERROR_OUT_OF_DEVICE_MEMORY"), "vkAllocateMemory", f"{physical.name} has no such memory"
            )
        return ranked[0]

    def available(self, heap: int) -> int:
        """Bytes that can still be allocated from a heap, as far as the driver says."""
        now = self.physical.heaps()[heap]
        claimed = sum(size for of, size in list(self._claims.values()) if of == heap)
        used = now.used if self.features.memory_budget else claimed
        return max(0, min(now.budget, now.size) - used)

    def claim(self, heap: int, size: int) -> object:
        """Count an allocation, before it is made. Raises OutOfDeviceMemory with the numbers when it does not fit."""
        room = self.available(heap)
        if size > room:
            raise OutOfDeviceMemory(
                constant("ERROR_OUT_OF_DEVICE_MEMORY"),
                "vkAllocateMemory",
                f"{self.physical.name} has {room >> 20} MiB of memory left, {-(-size >> 20)} MiB more are needed",
            )
        key = object()
        self._claims[key] = (heap, size)
        return key

    def unclaim(self, key: object) -> None:
        self._claims.pop(key, None)

    def arena(self, *, host: bool = False, expected: int = 0) -> Arena:
        """An empty arena; see `Arena`."""
        return Arena(self, host=host, expected=expected)

    def upload(self, view: View, data: Any, progress: Callable[[int], None] | None = None) -> None:
        """Copy bytes (any contiguous buffer or array of `view.bytes` bytes) to the device.

        Passes submitted afterwards see them; none in flight may use them. `progress` takes how many bytes are done.
        """
        self._transfer.scatter([view], data, progress)

    def download(self, view: View) -> NDArray[np.uint8]:
        """The bytes of a view (uint8, shape (bytes,)), copied, after all that was submitted."""
        return self._transfer.gather([view])

    def scatter(self, views: Sequence[View], data: Any) -> None:
        """As `upload`, for the bytes of several views after one another. The host sees all of them or none."""
        self._transfer.scatter(views, data)

    def gather(self, views: Sequence[View]) -> NDArray[np.uint8]:
        """As `download`, for the bytes of several views after one another. The host sees all of them or none."""
        return self._transfer.gather(views)

    # Pipelines

    def kernel(self, name: str | Path, constants: Sequence[int | float] = ()) -> Kernel:
        """The shader `shaders/<name>.spv` (or the file at a path), its specialization constants 0, 1, ... set.

        Made once for each name and constants. Raises ValueError when the constants are not those it declares.
        """
        return self._pipelines.get(name, tuple(constants))

    @cached_property
    def facts(self) -> Facts:
        """What Vulkan leaves open of its arithmetic."""
        return facts_of(self)

    def save_pipelines(self) -> None:
        """Keep what the driver compiled for the next start of the host."""
        self._pipelines.save()

    # Submission

    def submit(self, info: Any, value: Any) -> int:
        """Submit a VkSubmitInfo that signals `semaphore` with `value` (uint64_t *): the tick returned, set here."""
        self.alive()
        with self._queue_lock:
            value[0] = tick = self._tick + 1
            self.check(self._queue_submit(info), "vkQueueSubmit")
            self._tick = tick
        return tick

    def _queue_submit(self, info: Any) -> int:
        return self.lib.vkQueueSubmit(self._queue, 1, info, self.ffi.NULL)

    def done(self, tick: int) -> bool:
        """Whether what was submitted as `tick` has finished."""
        # Not asked of the semaphore's counter, which some drivers let lag behind waits that have returned.
        return tick <= self._finished or self._wait(tick, 0)

    def wait(self, tick: int, timeout: float = WAIT_SECONDS) -> None:
        """Wait, with the GIL released, until what was submitted as `tick` has finished; its results can be read then.

        Raises TimeoutError after `timeout` seconds, DeviceLost.
        """
        if not self._wait(tick, int(timeout * 1e9)):
            raise TimeoutError(f"{self.physical.name} has not finished a pass within {timeout:g} seconds")

    def _wait(self, tick: int, nanoseconds: int) -> bool:
        self.alive()
        value = self.ffi.new("uint64_t *", tick)
        info = struct("VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=self.semaphore, pValues=value)
        code = self.check(self.lib.vkWaitSemaphores(self.handle, info, nanoseconds), "vkWaitSemaphores")
        if code == constant("TIMEOUT"):
            return False
        self._finished = max(self._finished, tick)
        return True

    def wait_all(self) -> None:
        """Wait for everything submitted so far."""
        self.wait(self._tick)

    def close(self) -> None:
        """Wait for what runs, then destroy everything made from this device. May be called again."""
        if self.closed:
            return
        if not self.dead:
            self.save_pipelines()
        with self._queue_lock:
            self.closed = True
            self._destroy()

    def __enter__(self) -> Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _destroy_device(lib: Any, handle: Any, null: Any, owned: list[weakref.finalize[..., Any]]) -> None:
    lib.vkDeviceWaitIdle(handle)
    for release in reversed(owned):
        release()
    lib.vkDestroyDevice(handle, null)
