"""One picture from its prompt to its pixels, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host_krea2 import dit, preview
from golem_host_krea2.encoder import encode
from golem_host_krea2.picture import PictureRequest, Preview, Stage
from golem_host_krea2.png import pixels
from golem_host_krea2.sampling import sigmas
from golem_host_krea2.tiles import decode_tiled
from golem_host_krea2.vae import decode

Floats = NDArray[np.float32]
Emit = Callable[[Preview], None]


def draw(backend: Any, request: PictureRequest, emit: Emit) -> Generator[None, float | None, NDArray[np.uint8]]:
    """uint8 (height, width, 3). Runs on the device thread; yields wherever others may have the device. `emit` gets
    previews.

    Raises InternalError when a file goes away meanwhile.
    """
    progress = request.progress
    progress.stage = Stage.TEXT
    conditionings: list[Floats] = []
    for prompt in request.prompts:
        files = request.files
        taps = yield from encode(
            backend, files.encoder, files.encoder_hparams, files.dit_hparams.taps, prompt.ids, prompt.leading
        )
        conditionings.append((yield from dit.fuse(backend, files.dit, files.dit_hparams, taps)))
    colours = yield from _colours(backend, request)
    progress.stage = Stage.DRAWING
    latent = yield from _sample(backend, request, conditionings, colours, emit)
    progress.stage = Stage.DECODING
    weights = yield from request.files.decoder.load()

    def whole(latent: Floats) -> Generator[None, float | None, Floats]:
        return decode(backend, weights, latent)

    picture = yield from (decode_tiled(whole, latent) if request.tiled else whole(latent))
    return pixels(picture)


def _colours(backend: Any, request: PictureRequest) -> Generator[None, float | None, Floats | None]:
    """What previews are made with, where there shall be any."""
    if not request.previews:
        return None
    if request.files.colours is None:
        weights = yield from request.files.decoder.load()
        request.files.colours = yield from preview.fit(backend, weights)
    return request.files.colours


def _sample(
    backend: Any, request: PictureRequest, conditionings: list[Floats], colours: Floats | None, emit: Emit
) -> Generator[None, float | None, Floats]:
    """The latent after all of Euler's steps from noise."""
    files, progress = request.files, request.progress
    height, width = (side // dit.PATCH for side in request.latent)
    times = sigmas(request.steps)
    t, modulation = yield from dit.embed_times(backend, files.dit, files.dit_hparams, times[:-1])
    tokens = max(map(len, conditionings))
    denoiser = dit.Denoiser(backend, files.dit, files.dit_hparams, height, width, tokens, files.kept)
    yield from denoiser.prepare()
    x = dit.patched(request.noise)
    shown = _shown_after(request.steps, request.previews)
    for step in range(request.steps):

        def done(share: float, step: int = step) -> None:
            progress.fraction = (step + share) / request.steps

        velocities = yield from denoiser.velocities(x, conditionings, t[step], modulation[step], done)
        v = _guided(velocities, request.cfg)
        if colours is not None and step in shown:
            ended = _moved(x, v, -times[step])
            emit(Preview(shown.index(step), preview.look(colours, dit.unpatched(ended, height, width))))
        x = _moved(x, v, times[step + 1] - times[step])
        progress.step = step + 1
    return dit.unpatched(x, height, width)


def _guided(velocities: list[Floats], cfg: float) -> Floats:
    """Classifier-free guidance: from what is said without the prompt, `cfg` times the way to what is said with it."""
    if len(velocities) == 1:
        return velocities[0]
    wanted, other = velocities
    return (other + np.float32(cfg) * (wanted - other)).astype(np.float32)


def _moved(x: Floats, v: Floats, time: float) -> Floats:
    return (x + v * np.float32(time)).astype(np.float32)


def _shown_after(steps: int, previews: int) -> list[int]:
    """The steps after which a preview is shown, spread evenly; never the last, which the picture itself follows."""
    count = min(previews, steps - 1)
    return [(at + 1) * steps // (count + 1) - 1 for at in range(count)]
