"""Noise by seed, and the sigmas that ComfyUI's sampler `euler` takes with its schedule `simple`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from golem_host_krea2.hparams import LATENT_CHANNELS

SHIFT = 1.15
"""ComfyUI's shift of Krea 2, the same for every size and both checkpoints; e^SHIFT is what sigmas are pulled up by."""
TABLE = 10_000
"""Times that the schedule chooses from."""


def sigmas(steps: int) -> list[float]:
    """The steps' sigmas from 1 down, and a last 0."""
    times = [(TABLE - int(step * TABLE / steps)) / TABLE for step in range(steps)]
    return [math.exp(SHIFT) / (math.exp(SHIFT) + 1 / time - 1) for time in times] + [0.0]


def noise(seed: int, height: int, width: int) -> NDArray[np.float32]:
    """(16, height, width), the numbers that ComfyUI begins with: torch's generator of the processor, which reads the
    low 32 bits of a seed.
    """
    import torch

    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn([1, LATENT_CHANNELS, 1, height, width], generator=generator, dtype=torch.float32)[
        0, :, 0
    ].numpy()
