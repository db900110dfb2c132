"""The weights of loaded models in device memory: laid for the shaders, uploaded once, as long as their tensors live."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from golem_host.devices.vulkan import layouts
from golem_host.devices.vulkan.dispatch import Dispatch, Transposed, Vector, Weights
from golem_host.devices.vulkan.memory import View
from golem_host.weights.pages import drop_pages
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu

Wanted = Weights | Vector | Transposed


def wanted_by(dispatches: Iterable[Dispatch]) -> list[Wanted]:
    """The weights that dispatches bind, each once."""
    bound = (each for dispatch in dispatches for each in dispatch.buffers if isinstance(each, Wanted))
    return list({(each.tensor, _key(each)): each for each in bound}.values())


class DeviceWeights:
    """Where each weight lies on a device."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._align = max(gpu.limits.storage_buffer_alignment, 16)
        self._held: WeakKeyDictionary[Tensor, dict[Any, View]] = WeakKeyDictionary()

    def view(self, wanted: Wanted) -> View:
        """A weight's memory. It is uploaded first when `take` did not."""
        view = self._held.get(wanted.tensor, {}).get(_key(wanted))
        if view is None:
            self.take([wanted], lambda _: None)
            view = self._held[wanted.tensor][_key(wanted)]
        return view

    def missing_bytes(self, wanted: Iterable[Wanted]) -> int:
        """Bytes of device memory that those not yet uploaded will take."""
        return sum(-(-_bytes(each) // self._align) * self._align for each in self._missing(wanted))

    def take(self, wanted: Iterable[Wanted], progress: Callable[[float], None]) -> None:
        """Upload what is not there yet; `progress` takes the share done. The file's pages are given back one by one.

        May run on any thread, beside a pass. Raises OutOfDeviceMemory before anything is uploaded.
        """
        missing = self._missing(wanted)
        if not missing:
            return
        total = sum(_bytes(each) for each in missing)
        arena = self._gpu.arena(expected=self.missing_bytes(missing))
        views = [arena.take(_bytes(each)) for each in missing]
        done = 0
        for each, view in zip(missing, views, strict=True):
            start = done

            def report(part: int, start: int = start) -> None:
                progress((start + part) / total)

            self._upload(each, view, report)
            self._held.setdefault(each.tensor, {})[_key(each)] = view
            drop_pages(each.tensor.data)
            done += view.bytes

    def _missing(self, wanted: Iterable[Wanted]) -> list[Wanted]:
        return [each for each in wanted if _key(each) not in self._held.get(each.tensor, {})]

    def _upload(self, wanted: Wanted, view: View, progress: Callable[[int], None]) -> None:
        if isinstance(wanted, Weights):
            self._upload_matrix(wanted, view, progress)
            return
        values = wanted.tensor.float32()
        self._gpu.upload(view, np.ascontiguousarray(values.T if isinstance(wanted, Transposed) else values))
        progress(view.bytes)

    def _upload_matrix(self, wanted: Weights, view: View, progress: Callable[[int], None]) -> None:
        at = 0
        for tiles in layouts.laid(wanted.tensor, wanted.tiles, wanted.kind):
            self._gpu.upload(view.slice(at, tiles.nbytes), tiles)
            at += tiles.nbytes
            progress(at)


def _key(wanted: Wanted) -> Any:
    return (wanted.tiles.start, wanted.tiles.stop, wanted.kind) if isinstance(wanted, Weights) else type(wanted)


def _bytes(wanted: Wanted) -> int:
    tensor = wanted.tensor
    if isinstance(wanted, Weights):
        return len(wanted.tiles) * layouts.tile_bytes(wanted.kind, tensor.shape[-1])
    return 4 * tensor.elements
