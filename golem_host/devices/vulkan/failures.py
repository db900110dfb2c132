"""What callers are told when a device fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from golem_host.devices.vulkan.errors import VulkanError
from golem_host.errors import DeviceFailed

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu


@contextmanager
def device_errors(gpu: Gpu) -> Iterator[None]:
    """Turn what the driver reports while a model is loaded or computes, or a pass that never ends, into DeviceFailed.

    A device that hangs counts as lost: nothing waits for it again.
    """
    try:
        yield
    except TimeoutError as error:
        gpu.abandon()
        raise DeviceFailed(f"the device {gpu.physical.name} hangs: {error}") from error
    except VulkanError as error:
        raise DeviceFailed(f"the device {gpu.physical.name} failed: {error}") from error
