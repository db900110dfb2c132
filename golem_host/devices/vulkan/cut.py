"""Where a long pass is cut into submissions, so that none keeps a device from drawing its user's screen.

Drivers end what takes seconds (Windows after two), and nothing else on the device runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from golem_host.devices.vulkan import layouts
from golem_host.devices.vulkan.dispatch import Dispatch, Weights
from golem_host.devices.vulkan.schedule import Step

SECONDS = 0.03
"""About how long a submission may take."""
FIRST_WORK = 20_000_000_000
"""Multiplications of a submission before any time was taken: 0.2 s of a device that has 0.1 of 10^12 a second."""
OTHER_WORK = 4096
"""What a workgroup of anything but a product counts for."""


def work_of(dispatch: Dispatch) -> int:
    """About how many multiplications a dispatch is at full capacity."""
    weights = next((each for each in dispatch.buffers if isinstance(each, Weights)), None)
    if weights is None or dispatch.writes is None:
        x, y, z = dispatch.grid
        return OTHER_WORK * x * y * z
    tensor = weights.tensor
    share = len(weights.tiles) / layouts.tiles(tensor)
    return int(dispatch.axis.capacity * dispatch.writes.width * tensor.shape[-1] * share)


def cut(steps: Sequence[Step], most: float) -> list[Sequence[Step]]:
    """`steps` in pieces of about `most` work each, at least one piece."""
    pieces: list[Sequence[Step]] = []
    first, work = 0, 0
    for at, step in enumerate(steps):
        assert step.dispatch is not None
        now = work_of(step.dispatch)
        if work and work + now > most:
            pieces.append(steps[first:at])
            first, work = at, 0
        work += now
    return [*pieces, steps[first:]]
