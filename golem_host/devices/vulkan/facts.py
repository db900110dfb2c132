"""What Vulkan leaves open of a device's arithmetic, found out by having it compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from golem_host.devices.vulkan.commands import Pass

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu


@dataclass(frozen=True)
class Facts:
    """`fused`: fma rounds once. `small_halves`: halves below 2^-14 are unpacked as they are, not as zeros."""

    fused: bool
    small_halves: bool


def facts_of(gpu: Gpu) -> Facts:
    """Whether (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, and the halves 0x0001 and 0x83ff are 2^-24 and -1023 times that."""
    view = gpu.arena().take(32)
    given = np.array([1 + 2**-12, 1 + 2**-12, -1 - 2**-11, 0, 0, 0, 0, 0], np.float32)
    given.view(np.uint32)[4] = 0x83FF0001
    gpu.upload(view, given)
    with Pass(gpu) as commands:
        commands.dispatch(gpu.kernel("device_facts", (1,)), [view])
        commands.end()
        gpu.wait(commands.submit())
    found = gpu.download(view).view(np.float32)
    return Facts(bool(found[3] == 2**-24), found[5:7].tolist() == [2**-24, -1023 / 2**24])
