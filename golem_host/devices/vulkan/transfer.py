"""Bytes to and from a device's memory: directly where the host sees it, else through two staging buffers in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.memory import View

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu

STAGE = 8 << 20
"""Bytes of a staging buffer."""


class Stage:
    """A staging buffer and the last pass that used it."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.used_by: Pass | None = None

    def copy(self, gpu: Gpu, source: View, target: View) -> None:
        """Submit a copy from or to this buffer, which must be free."""
        self.used_by = Pass(gpu)
        self.used_by.copy(source, target)
        self.used_by.end()
        self.used_by.submit()

    def free(self) -> NDArray[np.uint8]:
        """The buffer's bytes, once the last copy is done."""
        if self.used_by is not None:
            self.used_by.close()
            self.used_by = None
        return self.view.array


class Transfer:
    """Uploads and downloads of a device; any thread may call."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._lock = threading.Lock()
        self._stages: list[Stage] = []

    def _ring(self) -> list[Stage]:
        if not self._stages:
            arena = self._gpu.arena(host=True, expected=2 * STAGE)
            self._stages = [Stage(arena.take(STAGE)) for _ in range(2)]
        return self._stages

    def upload(self, view: View, data: Any, progress: Callable[[int], None] | None = None) -> None:
        """See `Gpu.upload`."""
        self._gpu.alive()
        source = _flat(data)
        if source.size != view.bytes:
            raise ValueError(f"{source.size} bytes for a view of {view.bytes}")
        for number, start in enumerate(range(0, source.size, STAGE)):
            part = source[start : start + STAGE]
            if view.mapped:
                view.array[start : start + part.size] = part
            else:
                with self._lock:
                    stage = self._ring()[number % 2]
                    stage.free()[: part.size] = part
                    stage.copy(self._gpu, stage.view.slice(0, part.size), view.slice(start, part.size))
            if progress is not None:
                progress(start + part.size)

    def download(self, view: View) -> NDArray[np.uint8]:
        """See `Gpu.download`."""
        gpu = self._gpu
        gpu.wait_all()
        if view.mapped and view.buffer.kind.has("HOST_CACHED"):
            return view.array.copy()
        result = np.empty(view.bytes, np.uint8)
        with self._lock:
            stage = self._ring()[0]
            for start in range(0, view.bytes, STAGE):
                size = min(STAGE, view.bytes - start)
                stage.free()
                stage.copy(gpu, view.slice(start, size), stage.view.slice(0, size))
                result[start : start + size] = stage.free()[:size]
        return result


def _flat(data: Any) -> NDArray[np.uint8]:
    """Contiguous bytes without a copy; BufferError or ValueError for what is not contiguous."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if not array.flags.c_contiguous:
        raise ValueError("only contiguous bytes can be uploaded")
    return array.reshape(-1).view(np.uint8)
