"""A pass: commands recorded once, submitted as often as wanted with one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from golem_host.devices.vulkan.memory import View
from golem_host.devices.vulkan.pipelines import PUSH_BYTES, Kernel
from golem_host.devices.vulkan.structs import constant, struct

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu


class Pass:
    """Commands in the order they are given, recorded at `end`, run by `submit`; usable as a context manager.

    A command that a later one depends on is followed by a barrier (`barrier=True`), which all later ones wait for;
    leave it out between commands that are independent of each other. A pass sees what passes submitted before it wrote;
    the host sees what it wrote once it has waited for it. It keeps its views' memory alive. `timestamps`: the most
    `stamp`s there will be; ValueError on a device that has none.
    """

    def __init__(self, gpu: Gpu, *, timestamps: int = 0) -> None:
        gpu.alive()
        if timestamps and not gpu.physical.timestamp_bits:
            raise ValueError(f"{gpu.physical.name} has no timestamps")
        self._gpu = gpu
        self._dispatches: list[tuple[Kernel, tuple[int, int, int], bytes]] = []
        self._views: list[View] = []
        self._bindings: list[tuple[int, int, int]] = []
        self._steps: list[Any] = []
        self._transfers = False
        self._timestamps, self._stamps = timestamps, 0
        self._recorded: _Recorded | None = None
        self._tick = 0

    def dispatch(
        self,
        kernel: Kernel,
        views: Sequence[View],
        push: bytes = b"",
        grid: tuple[int, int, int] = (1, 1, 1),
        *,
        barrier: bool = True,
    ) -> None:
        """Run a kernel over `grid` workgroups, binding i being the i-th view.

        Raises ValueError for views that are not as many as the kernel binds or that cannot be bound (see `View`), for
        more than 128 push bytes or not whole words of 4, and for a grid beyond the device's limits.
        """
        limits = self._gpu.limits
        if len(views) != kernel.bindings:
            raise ValueError(f"{kernel.name} binds {kernel.bindings} views, {len(views)} are given")
        for view in views:
            if view.bytes > limits.storage_buffer_range or view.offset % limits.storage_buffer_alignment:
                raise ValueError(
                    f"{kernel.name}: a view of {view.bytes} bytes at {view.offset} cannot be bound; at most "
                    f"{limits.storage_buffer_range} bytes at multiples of {limits.storage_buffer_alignment} can"
                )
        if len(push) > PUSH_BYTES or len(push) % 4:
            raise ValueError(
                f"{kernel.name}: {len(push)} push bytes; words of 4 are wanted, at most {PUSH_BYTES} bytes"
            )
        most = limits.workgroup_counts
        if not (0 < grid[0] <= most[0] and 0 < grid[1] <= most[1] and 0 < grid[2] <= most[2]):
            raise ValueError(f"{kernel.name}: a grid of {grid} workgroups; the device allows 1 to {most}")
        self._steps.append(len(self._dispatches))
        self._dispatches.append((kernel, grid, push))
        self._views += views
        self._bindings += [view.binding for view in views]
        if barrier:
            self._steps.append(_BARRIER)

    def copy(self, source: View, target: View, *, barrier: bool = True) -> None:
        """Copy as many bytes as both views have. They may not overlap."""
        if source.bytes != target.bytes:
            raise ValueError(f"cannot copy {source.bytes} bytes to a view of {target.bytes}")
        region = struct("VkBufferCopy", srcOffset=source.offset, dstOffset=target.offset, size=source.bytes)
        self._transfer(
            ("vkCmdCopyBuffer", source.buffer.handle, target.buffer.handle, 1, region), (source, target), barrier
        )

    def fill(self, view: View, word: int = 0, *, barrier: bool = True) -> None:
        """Set every 4 bytes of a view, which must be whole words, to `word`."""
        if view.bytes % 4 or view.offset % 4:
            raise ValueError(f"only whole words of 4 bytes can be filled, not {view.bytes} bytes at {view.offset}")
        self._transfer(("vkCmdFillBuffer", view.buffer.handle, view.offset, view.bytes, word), (view,), barrier)

    def _transfer(self, call: tuple[Any, ...], views: tuple[View, ...], barrier: bool) -> None:
        self._transfers = True
        self._views += views
        self._steps.append(call)
        if barrier:
            self._steps.append(_BARRIER)

    def stamp(self) -> int:
        """Note the device's time when everything before is done; the index of that time in `times`."""
        if self._stamps == self._timestamps:
            raise ValueError(f"this pass was made for {self._timestamps} timestamps")
        self._steps.append(_Stamp(self._stamps))
        self._stamps += 1
        return self._stamps - 1

    def end(self) -> None:
        """Record the commands; from now on the pass can be submitted."""
        if self._recorded is not None:
            raise ValueError("the pass has been recorded")
        self._gpu.alive()
        self._recorded = recorded = _Recorded(self._gpu, self._stamps)
        recorded.bind([kernel for kernel, _, _ in self._dispatches], self._bindings)
        recorded.record(self._steps, self._dispatches, self._transfers)

    def submit(self) -> int:
        """Run the pass, which must not be running; the tick to wait for (`Gpu.wait`)."""
        if self._recorded is None:
            raise ValueError("the pass is not recorded: call end()")
        if self._tick and not self._gpu.done(self._tick):
            raise ValueError("the pass is still running: wait for it, or make two")
        recorded = self._recorded
        self._tick = recorded.tick = self._gpu.submit(recorded.submission, recorded.value)
        return self._tick

    def times(self) -> list[float]:
        """The times of the stamps in seconds (from a start that means nothing), of the last submission, which must be
        done.
        """
        if self._recorded is None:
            raise ValueError("the pass is not recorded: call end()")
        return self._recorded.times()

    def close(self) -> None:
        """Wait for the pass and give back what recording it took. May be called again."""
        if self._recorded is not None:
            self._recorded.release()
            self._recorded = None
        self._views.clear()

    def __enter__(self) -> Pass:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Stamp(int):
    """A timestamp among the steps of a pass."""


_BARRIER = object()


class _Recorded:
    """What the device was given of a pass: pools of its own, the command buffer, and how it is submitted."""

    def __init__(self, gpu: Gpu, stamps: int) -> None:
        ffi = gpu.ffi
        self._gpu, self._stamps = gpu, stamps
        self._pools: list[tuple[Any, Any]] = []
        self._sets: Any = ffi.NULL
        self._state = state = {"tick": 0}
        self.release = gpu.own(self, _release, gpu, self._pools, state)
        info = struct("VkCommandPoolCreateInfo", queueFamilyIndex=gpu.physical.queue_family)
        pool = gpu.create("vkCreateCommandPool", info, "VkCommandPool")
        self._pools.append((gpu.lib.vkDestroyCommandPool, pool))
        self._queries: Any = None
        if stamps:
            info = struct("VkQueryPoolCreateInfo", queryType=constant("QUERY_TYPE_TIMESTAMP"), queryCount=stamps)
            self._queries = gpu.create("vkCreateQueryPool", info, "VkQueryPool")
            self._pools.append((gpu.lib.vkDestroyQueryPool, self._queries))
        self._buffer = ffi.new("VkCommandBuffer *")
        info = struct("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
        gpu.check(gpu.lib.vkAllocateCommandBuffers(gpu.handle, info, self._buffer), "vkAllocateCommandBuffers")
        self.value = ffi.new("uint64_t *")
        self._signal = struct(
            "VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self.value
        )
        self.submission = struct(
            "VkSubmitInfo",
            pNext=self._signal,
            commandBufferCount=1,
            pCommandBuffers=self._buffer,
            signalSemaphoreCount=1,
            pSignalSemaphores=gpu.semaphore,
        )

    @property
    def tick(self) -> int:
        """The tick of the last submission; 0: none yet."""
        return self._state["tick"]

    @tick.setter
    def tick(self, tick: int) -> None:
        self._state["tick"] = tick

    def bind(self, kernels: list[Kernel], bindings: list[tuple[int, int, int]]) -> None:
        """Make the descriptor set of each dispatch: one allocation and one update for all of them."""
        if not kernels:
            return
        gpu, ffi = self._gpu, self._gpu.ffi
        count = len(kernels)
        size = struct(
            "VkDescriptorPoolSize", type=constant("DESCRIPTOR_TYPE_STORAGE_BUFFER"), descriptorCount=len(bindings)
        )
        info = struct("VkDescriptorPoolCreateInfo", maxSets=count, poolSizeCount=1, pPoolSizes=size)
        pool = gpu.create("vkCreateDescriptorPool", info, "VkDescriptorPool")
        self._pools.append((gpu.lib.vkDestroyDescriptorPool, pool))
        layouts = ffi.new("VkDescriptorSetLayout[]", [kernel.set_layout for kernel in kernels])
        self._sets = sets = ffi.new("VkDescriptorSet[]", count)
        info = struct("VkDescriptorSetAllocateInfo", descriptorPool=pool, descriptorSetCount=count, pSetLayouts=layouts)
        gpu.check(gpu.lib.vkAllocateDescriptorSets(gpu.handle, info, sets), "vkAllocateDescriptorSets")
        infos = np.array(bindings, np.uint64)
        first = ffi.cast("VkDescriptorBufferInfo *", ffi.from_buffer(infos))
        numbers = np.array([kernel.bindings for kernel in kernels], np.uint64)
        writes = np.zeros(count, _WRITE)
        writes["sType"] = constant("STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET")
        writes["descriptorType"] = constant("DESCRIPTOR_TYPE_STORAGE_BUFFER")
        writes["dstSet"] = np.frombuffer(ffi.buffer(sets), np.uint64)
        # More descriptors than the first binding has are those of the bindings after it.
        writes["descriptorCount"] = numbers
        starts = np.cumsum(numbers) - numbers
        writes["pBufferInfo"] = np.uint64(int(ffi.cast("uintptr_t", first))) + starts * np.uint64(infos.itemsize * 3)
        pointer = ffi.cast("VkWriteDescriptorSet *", ffi.from_buffer(writes))
        gpu.lib.vkUpdateDescriptorSets(gpu.handle, count, pointer, 0, ffi.NULL)

    def record(
        self, steps: list[Any], dispatches: list[tuple[Kernel, tuple[int, int, int], bytes]], transfers: bool
    ) -> None:
        """Record the steps: an index into `dispatches`, a call on buffers, a timestamp, or a barrier."""
        gpu, lib, null = self._gpu, self._gpu.lib, self._gpu.ffi.NULL
        buffer = self._buffer[0]
        gpu.check(lib.vkBeginCommandBuffer(buffer, struct("VkCommandBufferBeginInfo")), "vkBeginCommandBuffer")
        if self._queries is not None:
            lib.vkCmdResetQueryPool(buffer, self._queries, 0, self._stamps)
        compute, stage = constant("PIPELINE_BIND_POINT_COMPUTE"), constant("SHADER_STAGE_COMPUTE_BIT")
        bottom = constant("PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT")
        both = constant("PIPELINE_STAGE_COMPUTE_SHADER_BIT") | constant("PIPELINE_STAGE_TRANSFER_BIT")
        whole = _memory_barrier(_WRITES + _TRANSFER_WRITES, _READS + _WRITES + _TRANSFER_READS + _TRANSFER_WRITES)
        # What passes submitted earlier wrote.
        lib.vkCmdPipelineBarrier(buffer, both, both, 0, 1, whole, 0, null, 0, null)
        between, stages = (whole, both)
        if not transfers:
            between, stages = _memory_barrier(_WRITES, _READS + _WRITES), constant("PIPELINE_STAGE_COMPUTE_SHADER_BIT")
        push_all = gpu.ffi.from_buffer(b"".join(push for _, _, push in dispatches) or b"\0")
        sets, pushed = self._sets, 0
        bind_pipeline, bind_sets, push_constants = (
            lib.vkCmdBindPipeline,
            lib.vkCmdBindDescriptorSets,
            lib.vkCmdPushConstants,
        )
        run, wait = lib.vkCmdDispatch, lib.vkCmdPipelineBarrier
        bound = None
        for step in steps:
            if step is _BARRIER:
                wait(buffer, stages, stages, 0, 1, between, 0, null, 0, null)
            elif type(step) is int:
                kernel, (x, y, z), push = dispatches[step]
                if kernel is not bound:
                    bind_pipeline(buffer, compute, kernel.pipeline)
                    bound = kernel
                bind_sets(buffer, compute, kernel.layout, 0, 1, sets + step, 0, null)
                if push:
                    push_constants(buffer, kernel.layout, stage, 0, len(push), push_all + pushed)
                    pushed += len(push)
                run(buffer, x, y, z)
            elif type(step) is _Stamp:
                lib.vkCmdWriteTimestamp(buffer, bottom, self._queries, int(step))
            else:
                getattr(lib, step[0])(buffer, *step[1:])
        host = _memory_barrier(_WRITES + _TRANSFER_WRITES, ("HOST_READ",))
        lib.vkCmdPipelineBarrier(buffer, both, constant("PIPELINE_STAGE_HOST_BIT"), 0, 1, host, 0, null, 0, null)
        gpu.check(lib.vkEndCommandBuffer(buffer), "vkEndCommandBuffer")

    def times(self) -> list[float]:
        gpu, ffi = self._gpu, self._gpu.ffi
        if not self._stamps:
            return []
        ticks = ffi.new("uint64_t[]", self._stamps)
        flags = constant("QUERY_RESULT_64_BIT")
        size = 8 * self._stamps
        arguments = (gpu.handle, self._queries, 0, self._stamps, size, ticks, 8, flags)
        if gpu.check(gpu.lib.vkGetQueryPoolResults(*arguments), "vkGetQueryPoolResults") == constant("NOT_READY"):
            raise ValueError("the pass has not finished")
        mask = (1 << gpu.physical.timestamp_bits) - 1
        return [(tick & mask) * gpu.limits.timestamp_nanoseconds * 1e-9 for tick in ticks]


def _release(gpu: Gpu, pools: list[tuple[Any, Any]], state: dict[str, int]) -> None:
    if state["tick"] and not gpu.dead and not gpu.closed:
        gpu.wait(state["tick"])
    for destroy, pool in reversed(pools):
        destroy(gpu.handle, pool, gpu.ffi.NULL)


_READS, _WRITES = ("SHADER_READ",), ("SHADER_WRITE",)
_TRANSFER_READS, _TRANSFER_WRITES = ("TRANSFER_READ",), ("TRANSFER_WRITE",)


def _memory_barrier(before: tuple[str, ...], after: tuple[str, ...]) -> Any:
    def mask(names: tuple[str, ...]) -> int:
        return sum(constant(f"ACCESS_{name}_BIT") for name in names)

    return struct("VkMemoryBarrier", srcAccessMask=mask(before), dstAccessMask=mask(after))


_WRITE = np.dtype(
    {
        "names": ["sType", "dstSet", "descriptorCount", "descriptorType", "pBufferInfo"],
        "formats": [np.uint32, np.uint64, np.uint32, np.uint32, np.uint64],
        "offsets": [0, 16, 32, 36, 48],
        "itemsize": 64,
    }
)
"""VkWriteDescriptorSet of 64-bit machines; a test compares it with the header's."""
