"""The diffusion transformer: text fusion, the embedding of time, the blocks over text and image, and the last layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Recording, Ref
from golem_host.weights import GgmlType, Tensor
from golem_host_krea2.blocks import EPS, block, block_weights, modulated, product
from golem_host_krea2.files import File
from golem_host_krea2.hparams import LATENT_CHANNELS, PATCH, DitHparams
from golem_host_krea2.layer import Layer, LayerWeights, Record, fill

ROPE_BASE = 1000.0
PATCH_VALUES = LATENT_CHANNELS * PATCH * PATCH
Floats = NDArray[np.float32]


def fuse(backend: Any, file: File, hparams: DitHparams, taps: Floats) -> Generator[None, float | None, Floats]:
    """(tokens, width) of the conditioning from the encoder's (tokens, taps, text width), once for each prompt."""
    tokens = len(taps)
    x = taps.reshape(tokens * hparams.taps, hparams.text.width)
    layerwise = Layer(backend, layerwise_recorder(hparams, tokens))
    of_token = np.repeat(np.arange(tokens, dtype=np.int32), hparams.taps)
    for number in range(hparams.layerwise):
        file.check_there()
        yield from layerwise.bring(block_weights(file, f"txtfusion.layerwise_blocks.{number}", hparams.text))
        yield from layerwise.run({"x": x, "token": of_token}, {"rows": len(x)})
        x = layerwise.output("x")
    weights = file.floats("txtfusion.projector.weight", 1, hparams.taps)[0]
    x = np.einsum("l,nld->nd", weights, x.reshape(taps.shape))
    refiner = Layer(backend, _refiner(hparams, tokens))
    for number in range(hparams.refiners):
        file.check_there()
        yield from refiner.bring(block_weights(file, f"txtfusion.refiner_blocks.{number}", hparams.text))
        yield from refiner.run({"x": x}, {"rows": tokens})
        x = refiner.output("x")
    last = Layer(backend, _text_mlp(hparams, tokens))
    yield from last.bring(_text_mlp_weights(file, hparams))
    yield from last.run({"x": x}, {"rows": tokens})
    return last.output("x")


def embed_times(
    backend: Any, file: File, hparams: DitHparams, sigmas: Sequence[float]
) -> Generator[None, float | None, tuple[Floats, Floats]]:
    """For each time: (steps, width), which the last layer is modulated by, and (steps, 6, width) for the blocks."""
    half = hparams.time_dim // 2
    # In float32 throughout, as the reference: angles of up to 1,000 radians are rounded to 6e-5.
    frequencies = np.exp(np.float32(-math.log(10000)) * np.arange(half, dtype=np.float32) / np.float32(half))
    turns = np.float32(1000) * np.asarray(sigmas, np.float32)[:, None] * frequencies
    embedded = np.concatenate([np.cos(turns), np.sin(turns)], -1)
    layer = Layer(backend, _time(hparams, len(sigmas)))
    yield from layer.bring(_time_weights(file, hparams))
    yield from layer.run({"x": embedded}, {"rows": len(sigmas)})
    return layer.output("t"), layer.output("modulation").reshape(len(sigmas), 6, hparams.blocks.width)


class Denoiser:
    """Velocities of a latent of `height` x `width` patches under conditionings of up to `tokens` rows.

    Blocks are read from `file` for each step; in `kept`, if there is one, they stay in memory by their numbers.
    """

    def __init__(
        self,
        backend: Any,
        file: File,
        hparams: DitHparams,
        height: int,
        width: int,
        tokens: int,
        kept: dict[int, Any] | None = None,
    ) -> None:
        self._backend, self._file, self._hparams, self._kept = backend, file, hparams, kept
        self._height, self._width = height, width
        self._patches = Layer(backend, patches_recorder(hparams, height * width))
        self._block = Layer(backend, block_recorder(hparams, tokens + height * width))
        self._last = Layer(backend, last_recorder(hparams, height * width))
        blocks = (block_weights(file, f"blocks.{n}", hparams.blocks).types for n in range(hparams.layers))
        self._mixed = len({tuple(types.items()) for types in blocks}) > 1
        self._lin = [file.floats(f"blocks.{n}.mod.lin", 6 * hparams.blocks.width) for n in range(hparams.layers)]

    def prepare(self) -> Generator[None, float | None, None]:
        """Bring what every step needs. To be done once."""
        yield from self._patches.bring(patches_weights(self._file, self._hparams))

    def velocities(
        self,
        x: Floats,
        conditionings: Sequence[Floats],
        t: Floats,
        modulation: Floats,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Generator[None, float | None, list[Floats]]:
        """What the model says of `x` (patches, 64) under each conditioning, (patches, 64) each; yields after each piece
        of work. `t` (width,) and `modulation` (6, width) are those of the step; `progress` takes the share done.
        """
        hparams, patches = self._hparams, len(x)
        yield from self._patches.run({"x": x}, {"rows": patches})
        image = self._patches.view("x")
        rows = [np.concatenate([text, image]) for text in conditionings]
        turned = [angles(hparams, len(text), self._height, self._width) for text in conditionings]
        for number in range(hparams.layers):
            self._file.check_there()
            plain = block_weights(self._file, f"blocks.{number}", hparams.blocks)
            own = modulated(plain, modulation + self._lin[number].reshape(6, hparams.blocks.width))
            kept = None if self._kept is None else (yield from self._keep(number, own))
            yield from self._block.bring(own, kept)
            copied = len(rows) > 1 or self._mixed
            for at, z in enumerate(rows):
                yield from self._block.run({"x": z, "angles": turned[at]}, {"rows": len(z)})
                rows[at] = self._block.output("x") if copied else self._block.view("x")
            progress((number + 1) / hparams.layers)
        yield from self._last.bring(last_weights(self._file, hparams, t))
        found = []
        for z in rows:
            yield from self._last.run({"x": z[-patches:]}, {"rows": patches})
            found.append(self._last.output("x"))
        return found

    def _keep(self, number: int, weights: LayerWeights) -> Generator[None, float | None, Any]:
        """A block's place in memory, filled when it is first asked for."""
        assert self._kept is not None
        if number not in self._kept:
            staged = self._backend.stage(weights.types)
            yield from fill(staged, weights.matrices)
            self._kept[number] = staged
        return self._kept[number]


def angles(hparams: DitHparams, tokens: int, height: int, width: int) -> Floats:
    """cos and sin (rows, head_dim/2, 2): text at (0, 0, 0), each patch of the image at (0, its row, its column)."""
    at = np.zeros((tokens + height * width, 3))
    at[tokens:, 1] = np.repeat(np.arange(height), width)
    at[tokens:, 2] = np.tile(np.arange(width), height)
    turns = np.concatenate(
        [
            at[:, axis, None] * ROPE_BASE ** (-np.arange(0, dims, 2) / dims)
            for axis, dims in enumerate(hparams.rope_dims)
        ],
        -1,
    )
    return np.stack([np.cos(turns), np.sin(turns)], -1).astype(np.float32)


def patched(latent: Floats) -> Floats:
    """(patches, 64) of a latent (16, height, width): channel, line, column of each 2 x 2 patch, line by line."""
    channels, height, width = latent.shape
    cut = latent.reshape(channels, height // PATCH, PATCH, width // PATCH, PATCH)
    return np.ascontiguousarray(cut.transpose(1, 3, 0, 2, 4)).reshape(-1, PATCH_VALUES)


def unpatched(x: Floats, height: int, width: int) -> Floats:
    """(16, 2 height, 2 width) from patches, `height` lines of `width`."""
    cut = x.reshape(height, width, LATENT_CHANNELS, PATCH, PATCH).transpose(2, 0, 3, 1, 4)
    return np.ascontiguousarray(cut).reshape(LATENT_CHANNELS, height * PATCH, width * PATCH)


def block_recorder(hparams: DitHparams, rows: int) -> Record:
    b = hparams.blocks

    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        axis = recording.axis("rows", rows)
        x = recording.input("x", axis, b.width, dtype="f32")
        turned = recording.input("angles", axis, b.head_dim // 2, 2, dtype="f32")

        def attend(q: Ref, k: Ref, v: Ref) -> Ref:
            coarse = w["wq"].type is GgmlType.BF16  # then ComfyUI computes in bfloat16
            return ops.full_attention(q, k, v, scale=b.head_dim**-0.5, coarse=coarse)

        return {"x": block(x, w, b, attend, turned, modulated=True)}

    return make


def layerwise_recorder(hparams: DitHparams, tokens: int) -> Record:
    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        axis = recording.axis("rows", tokens * hparams.taps)
        x = recording.input("x", axis, hparams.text.width, dtype="f32")
        token = recording.input("token", axis)

        def attend(q: Ref, k: Ref, v: Ref) -> Ref:
            return ops.text_attention(q, k, v, token, scale=hparams.text.head_dim**-0.5)

        return {"x": block(x, w, hparams.text, attend)}

    return make


def _refiner(hparams: DitHparams, tokens: int) -> Record:
    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        x = recording.input("x", recording.axis("rows", tokens), hparams.text.width, dtype="f32")

        def attend(q: Ref, k: Ref, v: Ref) -> Ref:
            return ops.full_attention(q, k, v, scale=hparams.text.head_dim**-0.5)

        return {"x": block(x, w, hparams.text, attend)}

    return make


def _text_mlp(hparams: DitHparams, tokens: int) -> Record:
    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        x = recording.input("x", recording.axis("rows", tokens), hparams.text.width, dtype="f32")
        y = product(ops.rms_norm(x, w["norm"], EPS), w["first"], w["first_bias"])
        return {"x": product(ops.float_gelu_tanh(y), w["second"], w["second_bias"])}

    return make


def _text_mlp_weights(file: File, hparams: DitHparams) -> LayerWeights:
    width = hparams.blocks.width
    return LayerWeights(
        {
            "first": file.matrix("txtmlp.1.weight", width, hparams.text.width),
            "second": file.matrix("txtmlp.3.weight", width, width),
        },
        {
            "norm": np.float32(1) + file.floats("txtmlp.0.scale", hparams.text.width),
            "first_bias": file.floats("txtmlp.1.bias", width),
            "second_bias": file.floats("txtmlp.3.bias", width),
        },
    )


def _time(hparams: DitHparams, steps: int) -> Record:
    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        x = recording.input("x", recording.axis("rows", steps), hparams.time_dim, dtype="f32")
        t = product(ops.float_gelu_tanh(product(x, w["first"], w["first_bias"])), w["second"], w["second_bias"])
        return {"t": t, "modulation": product(ops.float_gelu_tanh(t), w["modulation"], w["modulation_bias"])}

    return make


def _time_weights(file: File, hparams: DitHparams) -> LayerWeights:
    width = hparams.blocks.width
    return LayerWeights(
        {
            "first": file.matrix("tmlp.0.weight", width, hparams.time_dim),
            "second": file.matrix("tmlp.2.weight", width, width),
            "modulation": file.matrix("tproj.1.weight", 6 * width, width),
        },
        {
            "first_bias": file.floats("tmlp.0.bias", width),
            "second_bias": file.floats("tmlp.2.bias", width),
            "modulation_bias": file.floats("tproj.1.bias", 6 * width),
        },
    )


def patches_recorder(hparams: DitHparams, patches: int) -> Record:
    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        x = recording.input("x", recording.axis("rows", patches), PATCH_VALUES, dtype="f32")
        return {"x": product(x, w["first"], w["first_bias"])}

    return make


def patches_weights(file: File, hparams: DitHparams) -> LayerWeights:
    width = hparams.blocks.width
    return LayerWeights(
        {"first": file.matrix("first.weight", width, PATCH_VALUES)}, {"first_bias": file.floats("first.bias", width)}
    )


def last_recorder(hparams: DitHparams, patches: int) -> Record:
    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        x = recording.input("x", recording.axis("rows", patches), hparams.blocks.width, dtype="f32")
        y = ops.add_row(ops.rms_norm(x, w["norm"], EPS), w["shift"])
        return {"x": product(y, w["last"], w["last_bias"])}

    return make


def last_weights(file: File, hparams: DitHparams, t: Floats) -> LayerWeights:
    width = hparams.blocks.width
    scale, shift = file.floats("last.modulation.lin", 2, width) + t
    one = np.float32(1)
    return LayerWeights(
        {"last": file.matrix("last.linear.weight", PATCH_VALUES, width)},
        {
            "norm": (one + file.floats("last.norm.scale", width)) * (one + scale),
            "shift": shift,
            "last_bias": file.floats("last.linear.bias", PATCH_VALUES),
        },
    )
