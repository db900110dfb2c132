"""Whether a device's fma rounds once, which Vulkan leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from golem_host.devices.vulkan.commands import Pass

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu


def rounds_once(gpu: Gpu) -> bool:
    """Computed by the device: (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, or 0 where the product is rounded too."""
    view = gpu.arena().take(16)
    gpu.upload(view, np.array([1 + 2**-12, 1 + 2**-12, -1 - 2**-11, -1], np.float32))
    with Pass(gpu) as commands:
        commands.dispatch(gpu.kernel("fused_fma", (1,)), [view])
        commands.end()
        gpu.wait(commands.submit())
    return float(gpu.download(view).view(np.float32)[3]) == 2**-24
