"""What the driver compiled, kept in the host's cache folder for the next start: one file for each driver and device.

The file is a digest and the driver's data. Only what was written whole, by this driver for this device, is handed back
to it: drivers trust what they are given.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct as packing
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from golem_host.core_settings import cache_folder
from golem_host.devices.vulkan.structs import constant, struct

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu

log = logging.getLogger("golem_host.devices.vulkan")

LARGEST = 64 << 20
"""Bytes of a file beyond which it is neither read nor written."""

_DIGEST = 32
_HEADER = packing.Struct("<IIII16s")


class PipelineCache:
    """A VkPipelineCache `handle` with what earlier starts saved. `changed`: something was compiled since."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.changed = False
        physical = gpu.physical
        self.path = cache_folder() / "vulkan" / f"{physical.driver_uuid}-{physical.uuid}.pipelines"
        data = self._read()
        kept = gpu.ffi.from_buffer(data)
        info = struct(
            "VkPipelineCacheCreateInfo", initialDataSize=len(data), pInitialData=kept if data else gpu.ffi.NULL
        )
        self.handle = gpu.create("vkCreatePipelineCache", info, "VkPipelineCache")
        gpu.own(self, gpu.lib.vkDestroyPipelineCache, gpu.handle, self.handle, gpu.ffi.NULL)

    def _read(self) -> bytes:
        """What was saved, empty where there is nothing to be trusted."""
        if not self.path.is_file():  # opening a pipe would wait until somebody writes to it
            return b""
        try:
            with self.path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError:
            return b""
        digest, data = content[:_DIGEST], content[_DIGEST:]
        if len(content) > LARGEST or hashlib.sha256(data).digest() != digest or not self._ours(data):
            log.warning("%s is damaged or of another driver, and is not used", self.path)
            return b""
        return data

    def _ours(self, data: bytes) -> bool:
        """Whether the data's header (VkPipelineCacheHeaderVersionOne) names this device and driver."""
        if len(data) < _HEADER.size:
            return False
        length, version, vendor, device, uuid = _HEADER.unpack_from(data)
        physical = self._gpu.physical
        return (length, version, vendor, device, uuid) == (
            _HEADER.size,
            constant("PIPELINE_CACHE_HEADER_VERSION_ONE"),
            physical.vendor_id,
            physical.device_id,
            physical.pipeline_cache_uuid,
        )

    def save(self) -> None:
        """Write what the driver compiled, if it did. A folder that cannot be written only slows the next start."""
        if not self.changed:
            return
        self.changed = False
        data = self._data()
        if not _HEADER.size <= len(data) <= LARGEST - _DIGEST or not self._ours(data):
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
                draft = Path(folder) / self.path.name
                draft.write_bytes(hashlib.sha256(data).digest() + data)
                os.replace(draft, self.path)
        except OSError as error:
            log.warning("cannot keep compiled pipelines in %s: %s", self.path.parent, error)

    def _data(self) -> bytes:
        gpu = self._gpu
        size = gpu.ffi.new("size_t *")
        arguments = (gpu.handle, self.handle, size)
        gpu.check(gpu.lib.vkGetPipelineCacheData(*arguments, gpu.ffi.NULL), "vkGetPipelineCacheData")
        if size[0] > LARGEST:
            return b""
        data = gpu.ffi.new("char[]", size[0])
        gpu.check(gpu.lib.vkGetPipelineCacheData(*arguments, data), "vkGetPipelineCacheData")
        return bytes(gpu.ffi.buffer(data, size[0]))
