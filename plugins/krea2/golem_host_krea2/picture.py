"""What a picture is asked for with, and what is told of it while it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.tokens import PromptTokens
from golem_host_krea2.vae import SCALE

MULTIPLE = 16
LEAST, MOST = 256, 2048
"""Pixels of a side: a multiple of MULTIPLE from LEAST to MOST."""
MAX_STEPS = 100
MAX_TOKENS = 2048
"""Of a prompt in its template."""
MAX_SEED = 2**64 - 1


class Stage(Enum):
    QUEUED = "queued"
    TEXT = "reading the prompt"
    DRAWING = "drawing"
    DECODING = "decoding"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Progress:
    """How far a picture is. Written by the device thread, read by any other."""

    id: str
    steps: int
    stage: Stage = Stage.QUEUED
    step: int = 0
    fraction: float = 0.0
    """Of the steps' work that is done."""


@dataclass(frozen=True)
class Preview:
    """The picture as it looks after a step, small: uint8 (height, width, 3)."""

    index: int
    pixels: NDArray[np.uint8]


@dataclass(frozen=True)
class PictureRequest:
    """What a job carries. `files` are those that were open when it was asked for, `noise` (16, height, width) is what
    the seed gives; `tiled` decodes in tiles.
    """

    files: Opened
    prompt: PromptTokens
    negative: PromptTokens | None
    width: int
    height: int
    steps: int
    cfg: float
    seed: int
    noise: NDArray[np.float32] = field(compare=False, repr=False)
    progress: Progress = field(compare=False)
    previews: int = 0
    tiled: bool = False

    @property
    def latent(self) -> tuple[int, int]:
        """Height and width in latents."""
        return self.height // SCALE, self.width // SCALE

    @property
    def prompts(self) -> list[PromptTokens]:
        """What is drawn under: the prompt, and where guidance is not 1 what the picture shall not be."""
        return [self.prompt] if self.negative is None else [self.prompt, self.negative]
