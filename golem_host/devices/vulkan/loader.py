"""The system's Vulkan loader and the instance of this process."""

from __future__ import annotations

import sys
import threading
from typing import Any, NamedTuple

from golem_host.devices.vulkan.errors import NoVulkan, VulkanError, check
from golem_host.devices.vulkan.structs import constant, struct

LIBRARIES = {
    "win32": ["vulkan-1.dll"],
    "darwin": ["libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"],
}

_PORTABILITY = b"VK_KHR_portability_enumeration"
_lock = threading.Lock()
_instance: Instance | None = None


class Version(NamedTuple):
    """A version of the API."""

    major: int
    minor: int
    patch: int = 0

    @staticmethod
    def unpack(packed: int) -> Version:
        return Version(packed >> 22 & 0x7F, packed >> 12 & 0x3FF, packed & 0xFFF)

    @property
    def packed(self) -> int:
        return self.major << 22 | self.minor << 12 | self.patch

    def __str__(self) -> str:
        return ".".join(map(str, self))


class Instance:
    """The loader's library `lib` with cffi's `ffi` (calls release the GIL), and an instance `handle` on it."""

    def __init__(self) -> None:
        from golem_host.devices.vulkan._abi import ffi

        self.ffi: Any = ffi
        self.lib: Any = self._open()
        packed = ffi.new("uint32_t *")
        try:
            check(self.lib.vkEnumerateInstanceVersion(packed), "vkEnumerateInstanceVersion")
        except AttributeError:
            packed[0] = Version(1, 0).packed
        loader = Version.unpack(packed[0])
        if loader < (1, 2):
            raise NoVulkan(f"the Vulkan loader is of version {loader}, golem-host needs 1.2: update it")
        self.version = min(loader, Version(1, 3))
        self.handle = self._create()

    def _open(self) -> Any:
        names = LIBRARIES.get(sys.platform, ["libvulkan.so.1"])
        for name in names:
            try:
                return self.ffi.dlopen(name)
            except OSError:
                continue
        hint = "" if sys.platform in LIBRARIES else " (Debian: libvulkan1)"
        raise NoVulkan(f"there is no Vulkan loader ({names[0]}): install your GPU's driver{hint}")

    def _create(self) -> Any:
        ffi = self.ffi
        extensions = [ffi.new("char[]", name) for name in self._extensions() if name == _PORTABILITY]
        names = ffi.new("char *[]", extensions)
        application = struct("VkApplicationInfo", apiVersion=self.version.packed)
        info = struct(
            "VkInstanceCreateInfo",
            flags=constant("INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR") if extensions else 0,
            pApplicationInfo=application,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=names,
        )
        handle = ffi.new("VkInstance *")
        try:
            check(self.lib.vkCreateInstance(info, ffi.NULL, handle), "vkCreateInstance")
        except VulkanError as error:
            raise NoVulkan(f"Vulkan finds no driver ({error.name}): install your GPU's driver") from error
        return handle[0]

    def _extensions(self) -> list[bytes]:
        found = enumerate_all(
            self.ffi, "VkExtensionProperties", self.lib.vkEnumerateInstanceExtensionProperties, self.ffi.NULL
        )
        return [self.ffi.string(each.extensionName) for each in found]


def enumerate_all(ffi: Any, type: str, call: Any, *arguments: Any) -> Any:
    """What a call of the form (..., count, array) lists, as an array of `type`."""
    count = ffi.new("uint32_t *")
    while True:
        check(call(*arguments, count, ffi.NULL) or 0, f"listing {type}")
        found = ffi.new(f"{type}[]", count[0])
        # VK_INCOMPLETE: there are more than a moment ago
        if check(call(*arguments, count, found) or 0, f"listing {type}") == 0:
            return found[0 : count[0]]


def instance() -> Instance:
    """The instance of this process, made at the first call. Raises NoVulkan when there is none to be had."""
    global _instance
    with _lock:
        if _instance is None:
            _instance = Instance()
        return _instance
