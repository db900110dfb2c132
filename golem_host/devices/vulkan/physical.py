"""The Vulkan devices of this machine: what they are, what they can, how much memory they have left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from golem_host.devices.vulkan.errors import NoVulkan, VulkanError
from golem_host.devices.vulkan.loader import Instance, Version, enumerate_all, instance
from golem_host.devices.vulkan.structs import constant, struct

STORAGE_BUFFERS = 12
"""How many views a shader may bind; the specification promises 4, every driver for GPUs of the last ten years more."""

WORKGROUP = 256
"""How many invocations a workgroup may have."""

TYPES = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
"""VkPhysicalDeviceType, for people."""

RANKS = ("discrete", "integrated", "virtual", "other", "cpu")
"""Which type of device is taken when none is named: the fastest as a rule."""


@dataclass(frozen=True)
class Limits:
    """Limits of a device that the host minds; bytes where not said otherwise."""

    storage_buffer_range: int
    storage_buffer_alignment: int
    allocation: int
    buffer: int
    storage_buffers: int
    shared_memory: int
    workgroup_invocations: int
    workgroup_counts: tuple[int, int, int]
    timestamp_nanoseconds: float


@dataclass(frozen=True)
class Features:
    """What a device can that the host does not demand; what is here is enabled on the logical device.

    `idot`: 4x8 integer dot products (SPV_KHR_integer_dot_product), `idot_fast`: in hardware. `fp16`, `int8`, `int16`:
    arithmetic. `storage8`, `storage16`: loads and stores. `subgroup_arithmetic`, `subgroup_shuffle`: in compute
    shaders. `memory_budget`: the driver says how much memory is left.
    """

    idot: bool
    idot_fast: bool
    fp16: bool
    int8: bool
    int16: bool
    storage8: bool
    storage16: bool
    subgroup_arithmetic: bool
    subgroup_shuffle: bool
    memory_budget: bool


@dataclass(frozen=True)
class Heap:
    """A heap of memory in bytes: its size, how much of it this process may use, how much of that it does use."""

    size: int
    budget: int
    used: int
    device_local: bool


@dataclass(frozen=True)
class MemoryType:
    """A kind of memory: its index in the driver's list, its heap, its VkMemoryPropertyFlags."""

    index: int
    heap: int
    flags: int

    def has(self, *names: str) -> bool:
        """Whether it is all of e.g. HOST_VISIBLE, HOST_CACHED."""
        return all(self.flags & constant(f"MEMORY_PROPERTY_{name}_BIT") for name in names)


class PhysicalDevice:
    """A device as the driver presents it. `index` is its place in the loader's list, `uuid` 32 hexadecimal digits that
    stay the same across restarts, `driver` its driver's name and version. `missing` names what the host needs and the
    device lacks: a device that misses something cannot be used.
    """

    def __init__(self, instance: Instance, handle: Any, index: int) -> None:
        self.instance, self.handle, self.index = instance, handle, index
        ffi, lib = instance.ffi, instance.lib
        first = struct("VkPhysicalDeviceProperties2")
        lib.vkGetPhysicalDeviceProperties2(handle, first)
        self.version = min(Version.unpack(first.properties.apiVersion), instance.version)
        extensions = enumerate_all(
            ffi, "VkExtensionProperties", lib.vkEnumerateDeviceExtensionProperties, handle, ffi.NULL
        )
        self.extensions = frozenset(ffi.string(each.extensionName).decode() for each in extensions)
        self._read_properties()
        self._read_features()
        self._read_queues()
        self._read_memory_types()

    def _has(self, core: tuple[int, int], extension: str) -> bool:
        return self.version >= core or extension in self.extensions

    def _read_properties(self) -> None:
        ffi = self.instance.ffi
        kept: list[Any] = []

        def chained(name: str, wanted: bool = True) -> Any:
            made = struct(name)
            if wanted:
                made.pNext = kept[-1] if kept else ffi.NULL
                kept.append(made)
            return made

        subgroup = chained("VkPhysicalDeviceVulkan11Properties", self.version >= (1, 2))
        driver = chained("VkPhysicalDeviceVulkan12Properties", self.version >= (1, 2))
        maintenance = chained("VkPhysicalDeviceMaintenance4Properties", self._has((1, 3), "VK_KHR_maintenance4"))
        self._dot = chained(
            "VkPhysicalDeviceShaderIntegerDotProductProperties", self._has((1, 3), "VK_KHR_shader_integer_dot_product")
        )
        head = chained("VkPhysicalDeviceProperties2")
        self.instance.lib.vkGetPhysicalDeviceProperties2(self.handle, head)
        properties, limits = head.properties, head.properties.limits
        self.name = ffi.string(properties.deviceName).decode(errors="replace")
        self.type = TYPES.get(int(properties.deviceType), "other")
        self.uuid = bytes(subgroup.deviceUUID).hex()
        self.driver_uuid = bytes(subgroup.driverUUID).hex()
        self.driver = f"{_text(ffi, driver.driverName)} {_text(ffi, driver.driverInfo)}".strip()
        self.vendor_id, self.device_id = int(properties.vendorID), int(properties.deviceID)
        self.pipeline_cache_uuid = bytes(properties.pipelineCacheUUID)
        self.subgroup_size = int(subgroup.subgroupSize)
        self._subgroup = subgroup
        allocation = int(subgroup.maxMemoryAllocationSize) or 1 << 30
        self.limits = Limits(
            storage_buffer_range=int(limits.maxStorageBufferRange),
            storage_buffer_alignment=max(4, int(limits.minStorageBufferOffsetAlignment)),
            allocation=allocation,
            buffer=int(maintenance.maxBufferSize) or allocation,
            storage_buffers=int(min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers)),
            shared_memory=int(limits.maxComputeSharedMemorySize),
            workgroup_invocations=int(min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0])),
            workgroup_counts=(
                int(limits.maxComputeWorkGroupCount[0]),
                int(limits.maxComputeWorkGroupCount[1]),
                int(limits.maxComputeWorkGroupCount[2]),
            ),
            timestamp_nanoseconds=float(limits.timestampPeriod),
        )

    def _read_features(self) -> None:
        chain = FeatureChain(self)
        self.instance.lib.vkGetPhysicalDeviceFeatures2(self.handle, chain.head)
        self.timeline = bool(chain.core12.timelineSemaphore)
        operations = int(self._subgroup.subgroupSupportedOperations)
        compute = bool(int(self._subgroup.subgroupSupportedStages) & constant("SHADER_STAGE_COMPUTE_BIT"))

        def subgroup(name: str) -> bool:
            return compute and bool(operations & constant(f"SUBGROUP_FEATURE_{name}_BIT"))

        idot = bool(chain.dot.shaderIntegerDotProduct)
        self.features = Features(
            idot=idot,
            idot_fast=idot and bool(self._dot.integerDotProduct4x8BitPackedSignedAccelerated),
            fp16=bool(chain.core12.shaderFloat16),
            int8=bool(chain.core12.shaderInt8),
            int16=bool(chain.head.features.shaderInt16),
            storage8=bool(chain.core12.storageBuffer8BitAccess),
            storage16=bool(chain.core11.storageBuffer16BitAccess),
            subgroup_arithmetic=subgroup("ARITHMETIC"),
            subgroup_shuffle=subgroup("SHUFFLE"),
            memory_budget="VK_EXT_memory_budget" in self.extensions,
        )

    def _read_queues(self) -> None:
        families = enumerate_all(
            self.instance.ffi,
            "VkQueueFamilyProperties",
            self.instance.lib.vkGetPhysicalDeviceQueueFamilyProperties,
            self.handle,
        )
        compute, graphics = constant("QUEUE_COMPUTE_BIT"), constant("QUEUE_GRAPHICS_BIT")
        able = [i for i, each in enumerate(families) if each.queueFlags & compute and each.queueCount]
        # A queue that only computes does not wait behind the desktop's drawing.
        able.sort(key=lambda i: bool(families[i].queueFlags & graphics))
        self.queue_family = able[0] if able else None
        self.timestamp_bits = int(families[able[0]].timestampValidBits) if able else 0

    def _read_memory_types(self) -> None:
        found = struct("VkPhysicalDeviceMemoryProperties2")
        self.instance.lib.vkGetPhysicalDeviceMemoryProperties2(self.handle, found)
        memory = found.memoryProperties
        self.memory_types = [
            MemoryType(i, int(memory.memoryTypes[i].heapIndex), int(memory.memoryTypes[i].propertyFlags))
            for i in range(memory.memoryTypeCount)
        ]

    def heaps(self) -> list[Heap]:
        """The heaps as they are now. Without VK_EXT_memory_budget the budget is the heap's size, nothing used."""
        budget = struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        found = struct("VkPhysicalDeviceMemoryProperties2")
        if self.features.memory_budget:
            found.pNext = budget
        self.instance.lib.vkGetPhysicalDeviceMemoryProperties2(self.handle, found)
        heaps = []
        for i in range(found.memoryProperties.memoryHeapCount):
            each = found.memoryProperties.memoryHeaps[i]
            local = bool(each.flags & constant("MEMORY_HEAP_DEVICE_LOCAL_BIT"))
            size = int(each.size)
            allowed, used = (
                (int(budget.heapBudget[i]), int(budget.heapUsage[i])) if self.features.memory_budget else (size, 0)
            )
            heaps.append(Heap(size, allowed, used, local))
        return heaps

    @property
    def memory(self) -> Heap:
        """The largest heap on the device, as it is now."""
        return max(self.heaps(), key=lambda heap: (heap.device_local, heap.size))

    @cached_property
    def missing(self) -> list[str]:
        """What the host needs and this device lacks, in words."""
        lacks = []
        if self.version < (1, 2):
            lacks.append(f"Vulkan 1.2 (it has {self.version})")
        elif not self.timeline:
            lacks.append("timeline semaphores")
        if self.queue_family is None:
            lacks.append("a compute queue")
        for have, need, what in (
            (self.limits.storage_buffers, STORAGE_BUFFERS, "storage buffers a shader"),
            (self.limits.workgroup_invocations, WORKGROUP, "invocations a workgroup"),
        ):
            if have < need:
                lacks.append(f"{need} {what} (it has {have})")
        return lacks

    def __repr__(self) -> str:
        return f"<Vulkan device {self.index}: {self.name}>"


class FeatureChain:
    """The structures of a device's features: filled by the driver, or handed to it with those to enable."""

    def __init__(self, physical: PhysicalDevice) -> None:
        self.head = struct("VkPhysicalDeviceFeatures2")
        self.core11 = struct("VkPhysicalDeviceVulkan11Features")
        self.core12 = struct("VkPhysicalDeviceVulkan12Features")
        self.dot = struct("VkPhysicalDeviceShaderIntegerDotProductFeatures")
        last = self.head
        for made, wanted in (
            (self.core11, physical.version >= (1, 2)),
            (self.core12, physical.version >= (1, 2)),
            (self.dot, physical._has((1, 3), "VK_KHR_shader_integer_dot_product")),
        ):
            if wanted:
                last.pNext = made
                last = made


def _text(ffi: Any, characters: Any) -> str:
    return ffi.string(characters).decode(errors="replace")


def gpus() -> list[PhysicalDevice]:
    """The Vulkan devices of this machine, as the loader lists them. Raises NoVulkan when there is none, with why."""
    found = instance()
    try:
        handles = enumerate_all(found.ffi, "VkPhysicalDevice", found.lib.vkEnumeratePhysicalDevices, found.handle)
    except VulkanError as error:
        raise NoVulkan(f"Vulkan cannot list its devices ({error.name}): check your GPU's driver") from error
    if not len(handles):
        raise NoVulkan("Vulkan finds no device: install your GPU's driver")
    return [PhysicalDevice(found, handle, index) for index, handle in enumerate(handles)]


def choose(devices: list[PhysicalDevice], which: str = "") -> PhysicalDevice:
    """The device of an index or UUID; without one the first of the best type that lacks nothing.

    Raises NoVulkan when there is no such device, or it lacks what the host needs.
    """
    if not which:
        ranked = sorted(devices, key=lambda each: (bool(each.missing), RANKS.index(each.type)))
        found = ranked[0]
    else:
        named = [each for each in devices if which in (str(each.index), each.uuid)]
        if not named:
            what = f"index {which}" if which.isdecimal() and len(which) < 32 else f"UUID {which}"
            have = f"0 to {len(devices) - 1}" if len(devices) > 1 else "only index 0"
            raise NoVulkan(f"there is no Vulkan device of {what}; there is {have} (see golem-host devices)")
        found = named[0]
    if found.missing:
        raise NoVulkan(f"{found.name} cannot be used: it lacks {', '.join(found.missing)}")
    return found
