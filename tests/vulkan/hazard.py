"""Two dispatches that depend on each other without a barrier: what the validation layer must complain of.

`.ci/vulkan` runs it to know that the layer is there and looks at synchronization, before it trusts its silence.
"""

from __future__ import annotations

import struct
from pathlib import Path

from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.physical import gpus

with Gpu(gpus()[0]) as gpu:
    arena = gpu.arena()
    x, y = arena.take(256), arena.take(256)
    kernel = gpu.kernel(Path(__file__).parent / "shaders" / "axpy.spv", (64, 1.0, False))
    with Pass(gpu) as made:
        made.dispatch(kernel, [x, y], struct.pack("If", 64, 0.0), barrier=False)
        made.dispatch(kernel, [y, x], struct.pack("If", 64, 0.0))
        made.end()
        gpu.wait(made.submit())
