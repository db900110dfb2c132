"""What a latent looks like, cheaply: a linear map to colours, fitted once to what the VAE itself gives."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.weights import Tensor
from golem_host_krea2.hparams import LATENT_CHANNELS
from golem_host_krea2.png import pixels
from golem_host_krea2.vae import SCALE, decode

SIDE = 16
"""Latents of a side of what is decoded for the fit."""

Floats = NDArray[np.float32]


def fit(backend: Any, weights: Mapping[str, Tensor]) -> Generator[None, float | None, Floats]:
    """(17, 3): the colour of a latent's pixels from its 16 channels and one, least squares over decoded noise."""
    latent = np.random.default_rng(0).standard_normal((LATENT_CHANNELS, SIDE, SIDE), np.float32)
    picture = yield from decode(backend, weights, latent)
    colours = picture.reshape(SIDE, SCALE, SIDE, SCALE, 3).mean((1, 3)).reshape(-1, 3)
    return np.linalg.lstsq(_known(latent), colours, rcond=None)[0]


def look(colours: Floats, latent: Floats) -> NDArray[np.uint8]:
    """uint8 (height, width, 3) of a latent (16, height, width)."""
    return pixels((_known(latent) @ colours).reshape(*latent.shape[1:], 3))


def _known(latent: Floats) -> Floats:
    rows = latent.reshape(LATENT_CHANNELS, -1).T
    return np.concatenate([rows, np.ones((len(rows), 1), np.float32)], 1)
