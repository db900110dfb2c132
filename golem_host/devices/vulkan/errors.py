"""What can go wrong with a Vulkan device."""

from __future__ import annotations

from functools import cache


class VulkanError(RuntimeError):
    """A call failed: `code` is its VkResult, `name` the result's name (VK_ERROR_...)."""

    def __init__(self, code: int, call: str) -> None:
        self.code, self.name, self.call = code, result_name(code), call
        super().__init__(f"{call}: {self.name}")


class OutOfDeviceMemory(VulkanError):
    """An allocation found no room: the message has the numbers where they are known."""

    def __init__(self, code: int, call: str, detail: str = "") -> None:
        super().__init__(code, call)
        if detail:
            self.args = (detail,)


class DeviceLost(VulkanError):
    """The device is gone (a reset after a hang, a driver that was updated, hardware that was unplugged). Its `Gpu` is
    dead: every further call raises this; a new `Gpu` may work.
    """


class NoVulkan(RuntimeError):
    """No loader, no driver or no such device: a sentence for people."""


@cache
def result_name(code: int) -> str:
    """-4 -> VK_ERROR_DEVICE_LOST."""
    from golem_host.devices.vulkan._abi import ffi

    return ffi.typeof("VkResult").elements.get(code, f"VkResult {code}")


def check(code: int, call: str) -> int:
    """Pass a VkResult on that says success (waiting, incomplete and the like included), raise for the others."""
    if code >= 0:
        return code
    if result_name(code) == "VK_ERROR_DEVICE_LOST":
        raise DeviceLost(code, call)
    if result_name(code) in ("VK_ERROR_OUT_OF_DEVICE_MEMORY", "VK_ERROR_OUT_OF_HOST_MEMORY"):
        raise OutOfDeviceMemory(code, call)
    raise VulkanError(code, call)
