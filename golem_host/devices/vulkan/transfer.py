"""Bytes to and from a device's memory: directly where the host sees it, else through two staging buffers in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
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

    def copy(self, gpu: Gpu, pairs: Sequence[tuple[View, View]]) -> None:
        """Submit copies, of sources to targets, from or to this buffer, which must be free."""
        self.used_by = Pass(gpu)
        for source, target in pairs:
            self.used_by.copy(source, target, barrier=False)
        self.used_by.end()
        self.used_by.submit()

    def parts(self, views: Sequence[View]) -> list[View]:
        """The bytes of this buffer that belong to each of the views, one after another."""
        starts = accumulate((view.bytes for view in views), initial=0)
        return [self.view.slice(start, view.bytes) for start, view in zip(starts, views, strict=False)]

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

    def scatter(self, views: Sequence[View], data: Any, progress: Callable[[int], None] | None = None) -> None:
        """See `Gpu.upload` and `Gpu.scatter`."""
        self._gpu.alive()
        source, done = _flat(data), 0
        size = sum(view.bytes for view in views)
        if source.size != size:
            raise ValueError(f"{source.size} bytes for a view of {size}")
        for number, group in enumerate(_groups(views)):
            part = source[done : done + sum(view.bytes for view in group)]
            if group[0].mapped:
                at = 0
                for view in group:
                    view.array[:] = part[at : at + view.bytes]
                    at += view.bytes
            else:
                with self._lock:
                    stage = self._ring()[number % 2]
                    stage.free()[: part.size] = part
                    stage.copy(self._gpu, list(zip(stage.parts(group), group, strict=True)))
            done += part.size
            if progress is not None:
                progress(done)

    def gather(self, views: Sequence[View]) -> NDArray[np.uint8]:
        """See `Gpu.download` and `Gpu.gather`."""
        gpu = self._gpu
        gpu.wait_all()
        result, done = np.empty(sum(view.bytes for view in views), np.uint8), 0
        for group in _groups(views):
            size = sum(view.bytes for view in group)
            if group[0].mapped and group[0].buffer.kind.has("HOST_CACHED"):
                np.concatenate([view.array for view in group], out=result[done : done + size])
            else:
                with self._lock:
                    stage = self._ring()[0]
                    stage.free()
                    stage.copy(gpu, list(zip(group, stage.parts(group), strict=True)))
                    result[done : done + size] = stage.free()[:size]
            done += size
        return result


def _groups(views: Sequence[View]) -> Iterator[list[View]]:
    """Parts of the views, in their order, as many at a time as a staging buffer holds."""
    group: list[View] = []
    room = STAGE
    for view in views:
        start = 0
        while start < view.bytes:
            size = min(room, view.bytes - start)
            group.append(view.slice(start, size))
            start, room = start + size, room - size
            if not room:
                yield group
                group, room = [], STAGE
    if group:
        yield group


def _flat(data: Any) -> NDArray[np.uint8]:
    """Contiguous bytes without a copy; BufferError or ValueError for what is not contiguous."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if not array.flags.c_contiguous:
        raise ValueError("only contiguous bytes can be uploaded")
    return array.reshape(-1).view(np.uint8)
