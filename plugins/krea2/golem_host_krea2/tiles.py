"""A decode in overlapping tiles, cut as ComfyUI cuts them: for pictures whose whole decode does not fit the memory.

Each tile's ends are faded in and out linearly. What it gives differs a little from a whole decode: attention and
padding see the tile alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from golem_host_krea2.vae import SCALE

TILE = 32
"""Latents of a tile's side."""
OVERLAP = 8
"""Latents that neighbours share."""

Floats = NDArray[np.float32]


def cuts(length: int) -> list[tuple[int, int]]:
    """(begin, end) of the tiles along a side; the last one may be shorter."""
    if length <= TILE:
        return [(0, length)]
    return [(begin, min(begin + TILE, length)) for begin in range(0, length - OVERLAP, TILE - OVERLAP)]


def ramp(pixels: int) -> Floats:
    """The weight of a tile's pixels along a side: rising over the overlap at both ends, unless it is short."""
    edge = OVERLAP * SCALE
    weight = np.ones(pixels, np.float32)
    if pixels > edge:
        rising = np.arange(1, edge + 1, dtype=np.float32) / np.float32(edge)
        weight[:edge] *= rising
        weight[-edge:] *= rising[::-1]
    return weight


def decode_tiled(
    decode: Callable[[Floats], Generator[None, float | None, Floats]], latent: Floats
) -> Generator[None, float | None, Floats]:
    """What `decode` gives of each tile of a latent (16, height, width), put together."""
    height, width = latent.shape[1:]
    total = np.zeros((SCALE * height, SCALE * width, 3), np.float32)
    weights = np.zeros((SCALE * height, SCALE * width, 1), np.float32)
    for (top, bottom), (left, right) in product(cuts(height), cuts(width)):
        tile = yield from decode(latent[:, top:bottom, left:right])
        weight = (ramp(tile.shape[0])[:, None] * ramp(tile.shape[1]))[..., None]
        place = np.s_[SCALE * top : SCALE * bottom, SCALE * left : SCALE * right]
        total[place] += weight * tile
        weights[place] += weight
    return total / weights
