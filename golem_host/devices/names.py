"""Devices by the names that settings give them (`golem_host.parsers.device`): which there are, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golem_host.errors import OperatorError


def resolved(name: str) -> str:
    """The one name of a device that may be named in several ways: `cpu`, or `vulkan:INDEX`.

    Raises OperatorError in one line when there is no such device here, or it cannot be used.
    """
    kind, _, which = name.partition(":")
    return name if kind == "cpu" else f"vulkan:{_physical(which).index}"


def backend_maker(name: str, settings: Mapping[str, Any]) -> Callable[[], Any]:
    """What makes the backend of a device of that (resolved) name; it raises OperatorError as `resolved` does."""
    kind, _, which = name.partition(":")

    def cpu() -> Any:
        from golem_host.devices.cpu import CpuBackend

        return CpuBackend(threads=settings["threads"], repack=settings["repack"])

    def vulkan() -> Any:
        from golem_host.devices.vulkan.backend import VulkanBackend
        from golem_host.devices.vulkan.errors import VulkanError
        from golem_host.devices.vulkan.gpu import Gpu

        nonlocal which
        physical = _physical(which)
        # After a failure the same device is opened, wherever it stands by then.
        which = physical.uuid
        try:
            return VulkanBackend(Gpu(physical))
        except VulkanError as error:
            raise OperatorError(f"device {name} cannot be opened: {error}") from error

    return cpu if kind == "cpu" else vulkan


def _physical(which: str) -> Any:
    from golem_host.devices.vulkan.errors import NoVulkan, VulkanError
    from golem_host.devices.vulkan.physical import choose, gpus

    try:
        return choose(gpus(), which)
    except (NoVulkan, VulkanError) as error:
        raise OperatorError(f"device vulkan{':' if which else ''}{which}: {error}") from error
