"""Memory of a device: arenas made of few large allocations, and views of them, which shaders bind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.vulkan.structs import constant, struct

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu

FIRST_CHUNK = 1 << 20
LARGEST_CHUNK = 256 << 20
"""Bytes of an arena's first allocation and of the later ones, which double; a larger tensor gets one of its size."""


class Chunk:
    """One allocation with a buffer over all of it. `array`: its bytes (uint8) where the host sees them, else None."""

    def __init__(self, gpu: Gpu, size: int, host: bool) -> None:
        ffi, lib, handle = gpu.ffi, gpu.lib, gpu.handle
        self.gpu, self.size, self.used = gpu, size, 0
        usage = sum(constant(f"BUFFER_USAGE_{name}_BIT") for name in ("STORAGE_BUFFER", "TRANSFER_SRC", "TRANSFER_DST"))
        info = struct("VkBufferCreateInfo", size=size, usage=usage)
        buffer = gpu.create("vkCreateBuffer", info, "VkBuffer")
        key = memory = None
        try:
            needs = struct("VkMemoryRequirements")
            lib.vkGetBufferMemoryRequirements(handle, buffer, needs)
            self.kind = kind = gpu.memory_type(int(needs.memoryTypeBits), host)
            key = gpu.claim(kind.heap, int(needs.size))
            info = struct("VkMemoryAllocateInfo", allocationSize=needs.size, memoryTypeIndex=kind.index)
            memory = gpu.create("vkAllocateMemory", info, "VkDeviceMemory")
            gpu.check(lib.vkBindBufferMemory(handle, buffer, memory, 0), "vkBindBufferMemory")
            # Arrays keep the pointer alive, not this object: memory is given back with the last of them.
            anchor: Any = self
            self.array: NDArray[np.uint8] | None = None
            if kind.has("HOST_VISIBLE", "HOST_COHERENT"):
                pointer = ffi.new("void **")
                gpu.check(lib.vkMapMemory(handle, memory, 0, size, 0, pointer), "vkMapMemory")
                anchor = pointer[0]
                self.array = np.frombuffer(ffi.buffer(anchor, size), np.uint8)
        except BaseException:
            _free(gpu, buffer, memory, key)
            raise
        self.address = int(ffi.cast("uintptr_t", buffer))
        self.handle = buffer
        self.release = gpu.own(anchor, _free, gpu, buffer, memory, key)


def _free(gpu: Gpu, buffer: Any, memory: Any, key: object) -> None:
    gpu.lib.vkDestroyBuffer(gpu.handle, buffer, gpu.ffi.NULL)
    if memory is not None:
        gpu.lib.vkFreeMemory(gpu.handle, memory, gpu.ffi.NULL)
    gpu.unclaim(key)


class View:
    """`bytes` bytes of a chunk from `offset` on. A shader can bind it when it starts at a multiple of
    `limits.storage_buffer_alignment` and is no longer than `limits.storage_buffer_range`.
    """

    __slots__ = ("binding", "buffer", "bytes", "offset")

    def __init__(self, buffer: Chunk, offset: int, bytes: int) -> None:
        if bytes <= 0 or offset < 0 or offset + bytes > buffer.size:
            raise ValueError(f"bytes {offset}..{offset + bytes} of a buffer of {buffer.size}")
        self.buffer, self.offset, self.bytes = buffer, offset, bytes
        self.binding = (buffer.address, offset, bytes)

    def slice(self, offset: int, bytes: int) -> View:
        """A part of this view."""
        if offset < 0 or offset + bytes > self.bytes:
            raise ValueError(f"bytes {offset}..{offset + bytes} of a view of {self.bytes}")
        return View(self.buffer, self.offset + offset, bytes)

    @property
    def mapped(self) -> bool:
        """Whether the host sees the bytes: `array` can be used."""
        return self.buffer.array is not None

    @property
    def array(self) -> NDArray[np.uint8]:
        """The bytes themselves (uint8, shape (bytes,)). Not to be used after the arena is freed; what passes in flight
        read or write must be left alone. Reading may be slow where the memory is not the host's: see `Gpu.download`.
        """
        if self.buffer.array is None:
            raise ValueError("this memory is not visible to the host: use Gpu.upload and Gpu.download")
        return self.buffer.array[self.offset : self.offset + self.bytes]


class Arena:
    """Memory that is given back as a whole: by `free`, or when neither the arena nor a view of it is left.

    `host`: in the host's memory, readable fast, for what changes between passes and for results. `expected`: how many
    bytes will be taken in all, where that is known: then nothing is allocated beyond them.
    """

    def __init__(self, gpu: Gpu, *, host: bool = False, expected: int = 0) -> None:
        self._gpu, self._host, self._expected = gpu, host, expected
        self._chunks: list[Chunk] = []
        self._align = max(gpu.limits.storage_buffer_alignment, 16)

    @property
    def bytes(self) -> int:
        """Bytes allocated."""
        return sum(chunk.size for chunk in self._chunks)

    def take(self, bytes: int) -> View:
        """A view of that many bytes, what is in them undefined, aligned so that shaders can bind it.

        It may be longer than a shader can bind (`limits.storage_buffer_range`): then bind slices of it. Raises
        OutOfDeviceMemory with the numbers when the device has no room; ValueError for more than one allocation can be.
        """
        limits = self._gpu.limits
        most = min(limits.allocation, limits.buffer) // self._align * self._align
        size = -(-bytes // self._align) * self._align
        if not 0 < size <= most:
            raise ValueError(f"cannot take {bytes} bytes at once: 1 to {most} can be allocated on this device")
        chunk = next((each for each in self._chunks if each.size - each.used >= size), None)
        if chunk is None:
            chunk = Chunk(self._gpu, self._chunk_size(size, most), self._host)
            self._chunks.append(chunk)
        view = View(chunk, chunk.used, bytes)
        chunk.used += size
        self._expected = max(0, self._expected - size)
        return view

    def _chunk_size(self, size: int, most: int) -> int:
        if self._expected:
            return max(size, min(-(-self._expected // self._align) * self._align, most, 4 * LARGEST_CHUNK))
        grown = FIRST_CHUNK << len(self._chunks) if len(self._chunks) < 16 else LARGEST_CHUNK
        return max(size, min(grown, LARGEST_CHUNK, most))

    def free(self) -> None:
        """Give everything back now. No pass in flight may use it, no view of it be used again. May be called twice."""
        for chunk in self._chunks:
            chunk.array = None
            chunk.release()
        self._chunks.clear()
