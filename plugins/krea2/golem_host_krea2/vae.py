"""The VAE's decoder (Wan 2.1, Qwen-Image) of one picture: latents to pixels.

Its convolutions are causal in time. A single frame has two frames of zeros before it, so that only the last of their
three taps in time counts and the decoder is one of pictures.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Recording, Ref
from golem_host.weights import GgmlType, Tensor
from golem_host_krea2.files import File
from golem_host_krea2.hparams import LATENT_CHANNELS
from golem_host_krea2.layer import SLICE_SECONDS, compiled

SCALE = 8
"""Pixels of a latent's side."""
MEAN = np.array([
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
    0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
], np.float32)  # fmt: skip
STD = np.array([
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
    3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160,
], np.float32)  # fmt: skip
"""Of each channel: what the diffusion model's latents are times STD plus MEAN (the Wan 2.1 latent format)."""

Floats = NDArray[np.float32]


class Decoder:
    """The weights' names and shapes, checked when it is made; `load` reads them. Raises `ModelFileError`."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._walk()

    def _walk(self) -> None:
        self._conv("conv2", LATENT_CHANNELS, LATENT_CHANNELS, taps=1)
        width = self._conv("decoder.conv1", None, LATENT_CHANNELS)
        self._residual("decoder.middle.0", width, width)
        self._norm("decoder.middle.1.norm", width)
        self._conv("decoder.middle.1.to_qkv", 3 * width, width, taps=1)
        self._conv("decoder.middle.1.proj", width, width, taps=1)
        self._residual("decoder.middle.2", width, width)
        for at in range(15):
            name = f"decoder.upsamples.{at}"
            enlarges = at % 4 == 3
            width = self._conv(f"{name}.resample.1", None, width) if enlarges else self._residual(name, width, None)
        self._norm("decoder.head.0", width)
        self._conv("decoder.head.2", 3, width)

    def _residual(self, name: str, into: int, out: int | None) -> int:
        self._norm(f"{name}.residual.0", into)
        out = self._conv(f"{name}.residual.2", out, into)
        self._norm(f"{name}.residual.3", out)
        self._conv(f"{name}.residual.6", out, out)
        if into != out:
            self._conv(f"{name}.shortcut", out, into, taps=1)
        return out

    def _conv(self, name: str, out: int | None, into: int, *, taps: int = 3) -> int:
        shape = self._file.shape(f"{name}.weight")
        found = shape[0] if out is None and shape else out or 0
        if found < 1 or shape[:2] != (found, into) or len(shape) not in (4, 5) or set(shape[2:]) != {taps}:
            wanted = f"a convolution of {into} channels with {taps} taps a side"
            raise self._file.refusal(f"{name}.weight", f"has shape {list(shape)}; {wanted} is expected")
        self.shapes[f"{name}.weight"] = (found, into) if taps == 1 else (found, taps, taps, into)
        self._vector(f"{name}.bias", found)
        return found

    def _norm(self, name: str, width: int) -> None:
        self._vector(f"{name}.gamma", width)

    def _vector(self, name: str, width: int) -> None:
        if math.prod(self._file.shape(name)) != width:
            raise self._file.refusal(name, f"has shape {list(self._file.shape(name))}, {width} values are expected")
        self.shapes[name] = (width,)

    @property
    def weight_bytes(self) -> int:
        return 4 * sum(map(math.prod, self.shapes.values()))

    def load(self) -> Generator[None, float | None, dict[str, Tensor]]:
        """The weights in float32, as operations take them."""
        found: dict[str, Tensor] = {}
        for name, shape in self.shapes.items():
            self._file.check_there()
            values = self._file.floats(name)
            if len(shape) == 4:
                taps = values[:, :, -1] if values.ndim == 5 else values
                values = taps.transpose(0, 2, 3, 1)
            found[name] = float_tensor(name, np.ascontiguousarray(values).reshape(shape))
            yield
        return found


def float_tensor(name: str, values: Floats) -> Tensor:
    from pathlib import Path

    data = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint8)
    return Tensor(name, values.shape, int(GgmlType.F32), Path(name), (GgmlType.F32, data))


def decoding(w: Mapping[str, Tensor], height: int, width: int) -> Recording:
    """The pass over latents of that size: `z` (pixels, 16) in, `picture` (64 * pixels, 3) out.

    What enlarges (`larger1` .. `larger3`) are the rows to take, see `enlarging`.
    """
    recording = Recording()
    axes = [recording.axis(f"pixels{level}", height * width * 4**level) for level in range(4)]
    x = recording.input("z", axes[0], LATENT_CHANNELS, dtype="f32")

    def linear(x: Ref, name: str) -> Ref:
        return ops.linear(x, w[f"{name}.weight"], w[f"{name}.bias"], rounds=False)

    def conv(x: Ref, name: str, level: int) -> Ref:
        return ops.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], width=width << level)

    def norm(x: Ref, name: str) -> Ref:
        # x / max(|x|, 1e-12) * sqrt(channels): the root of the mean square instead of the length
        return ops.rms_norm(x, w[f"{name}.gamma"], 1e-24 / x.width)

    def residual(x: Ref, name: str, level: int) -> Ref:
        y = conv(ops.silu(norm(x, f"{name}.residual.0")), f"{name}.residual.2", level)
        y = conv(ops.silu(norm(y, f"{name}.residual.3")), f"{name}.residual.6", level)
        return ops.add(y, linear(x, f"{name}.shortcut") if f"{name}.shortcut.weight" in w else x)

    x = conv(linear(x, "conv2"), "decoder.conv1", 0)
    x = residual(x, "decoder.middle.0", 0)
    x = ops.add(x, _attention(norm(x, "decoder.middle.1.norm"), linear))
    x = residual(x, "decoder.middle.2", 0)
    for at in range(15):
        level = at // 4
        if at % 4 < 3:
            x = residual(x, f"decoder.upsamples.{at}", level)
        else:
            x = ops.select(x, recording.input(f"larger{level + 1}", axes[level + 1]))
            x = conv(x, f"decoder.upsamples.{at}.resample.1", level + 1)
    recording.output("picture", conv(ops.silu(norm(x, "decoder.head.0")), "decoder.head.2", 3))
    return recording


def _attention(x: Ref, linear: Any) -> Ref:
    """One head over all pixels."""
    width = x.width
    qkv = linear(x, "decoder.middle.1.to_qkv")
    q, k, v = (ops.narrow(qkv, part * width, width).reshape(1, width) for part in range(3))
    return linear(ops.full_attention(q, k, v, scale=width**-0.5).reshape(width), "decoder.middle.1.proj")


def enlarging(height: int, width: int) -> NDArray[np.int32]:
    """For each pixel of a picture twice as large, the pixel it repeats."""
    lines, columns = np.arange(2 * height) // 2, np.arange(2 * width) // 2
    return (lines[:, None] * width + columns).astype(np.int32).reshape(-1)


def decode(backend: Any, w: Mapping[str, Tensor], latent: Floats) -> Generator[None, float | None, Floats]:
    """(8 height, 8 width, 3), about -1 to 1, of a latent (16, height, width) as the diffusion model has it."""
    height, width = latent.shape[1:]
    recording = decoding(w, height, width)
    yield  # recording and compiling take as long as a slice
    program = compiled(backend, recording)
    yield
    z = latent * STD[:, None, None] + MEAN[:, None, None]
    program.inputs["z"][:] = z.reshape(LATENT_CHANNELS, -1).T
    for level in range(3):
        program.inputs[f"larger{level + 1}"][:] = enlarging(height << level, width << level)
    slices = program.slices({f"pixels{level}": height * width * 4**level for level in range(4)})
    while not slices.done:
        slices.advance(SLICE_SECONDS)
        yield
    return program.output("picture").reshape(SCALE * height, SCALE * width, 3).copy()
