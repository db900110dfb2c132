"""Sizes of Mimi, the codec whose codes the language model hears (Défossez et al. 2024, arXiv 2410.00037)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golem_host.api import ModelFileError
from golem_host.weights.config_json import Config, read_config

SAMPLE_RATE = 24_000
"""Hz."""
FRAME = 1920
"""Samples of a frame: 80 ms."""
FRAME_RATE = SAMPLE_RATE / FRAME
"""Hz: 12.5."""


@dataclass(frozen=True)
class Mimi:
    """The encoder. Convolutions of `kernel`, `residual_kernel` and `last_kernel` taps; `ratios` are the strides, in
    the order of the signal, each doubling the `filters` channels. Then a transformer of `width` values that sees
    `context` steps, two a frame, and `levels` codebooks of `entries` vectors of `code_width` values.
    """

    filters: int = 64
    ratios: tuple[int, ...] = (4, 5, 6, 8)
    kernel: int = 7
    residual_kernel: int = 3
    last_kernel: int = 3
    width: int = 512
    heads: int = 8
    layers: int = 8
    ff_width: int = 2048
    context: int = 250
    rope_base: float = 10_000.0
    code_width: int = 256
    entries: int = 2048
    levels: int = 32


def read_mimi(path: Path | None) -> Mimi:
    """The sizes in a file, or without one the published ones. Raises `ModelFileError` for a codec of another make."""
    if path is None:
        return Mimi()
    config = read_config(path)
    config.require("sample_rate", SAMPLE_RATE, None)
    config.require("channels", 1, None)
    config.require("frame_rate", FRAME_RATE, None)
    seanet, transformer, quantizer = (_part(config, key) for key in ("seanet", "transformer", "quantizer"))
    for part, key, expected in (
        (seanet, "channels", 1),
        (seanet, "causal", True),
        (seanet, "n_residual_layers", 1),
        (seanet, "activation", "ELU"),
        (seanet, "compress", 2),
        (seanet, "disable_norm_outer_blocks", 0),
        (seanet, "norm", "none"),
        (seanet, "pad_mode", "constant"),
        (seanet, "true_skip", True),
        (transformer, "causal", True),
        (transformer, "gating", "none"),
        (transformer, "norm", "layer_norm"),
        (transformer, "positional_embedding", "rope"),
    ):
        part.require(key, expected, None)
    width, heads = seanet.positive("dimension", 4096), transformer.positive("num_heads", 64)
    for part, key, expected in (
        (transformer, "d_model", width),
        (transformer, "input_dimension", width),
        (transformer, "output_dimensions", [width]),
        (quantizer, "input_dimension", width),
        (quantizer, "output_dimension", width),
    ):
        part.require(key, expected, None)
    if width % heads or width // heads % 2:
        raise ModelFileError(path, f"a width of {width} does not divide into {heads} heads of an even size")
    return Mimi(
        filters=seanet.positive("n_filters", 1024, least=2),
        ratios=_ratios(seanet),
        kernel=seanet.positive("kernel_size", 64, least=2),
        residual_kernel=seanet.positive("residual_kernel_size", 64, least=2),
        last_kernel=seanet.positive("last_kernel_size", 64, least=2),
        width=width,
        heads=heads,
        layers=transformer.positive("num_layers", 64),
        ff_width=transformer.positive("dim_feedforward", 1 << 16),
        context=transformer.positive("context", 1 << 16, least=2),
        rope_base=float(transformer.positive("max_period", 1 << 30)),
        code_width=quantizer.positive("dimension", 4096),
        entries=quantizer.positive("bins", 1 << 16),
        levels=quantizer.positive("n_q", 64),
    )


def mimi_shapes(mimi: Mimi, levels: int) -> dict[str, tuple[int, ...]]:
    """The tensors that the encoder needs for the first `levels` levels of codes."""
    found: dict[str, tuple[int, ...]] = {}

    def conv(name: str, out: int, inner: int, taps: int) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = (out, inner, taps), (out,)

    channels, d = mimi.filters, mimi.width
    conv("encoder.model.0.conv.conv", channels, 1, mimi.kernel)
    for stage, ratio in enumerate(mimi.ratios):
        at = 1 + 3 * stage
        conv(f"encoder.model.{at}.block.1.conv.conv", channels // 2, channels, mimi.residual_kernel)
        conv(f"encoder.model.{at}.block.3.conv.conv", channels, channels // 2, 1)
        conv(f"encoder.model.{at + 2}.conv.conv", 2 * channels, channels, 2 * ratio)
        channels *= 2
    conv(f"encoder.model.{2 + 3 * len(mimi.ratios)}.conv.conv", d, channels, mimi.last_kernel)
    for i in range(mimi.layers):
        layer = f"encoder_transformer.transformer.layers.{i}"
        found[f"{layer}.self_attn.in_proj_weight"] = (3 * d, d)
        found[f"{layer}.self_attn.out_proj.weight"] = (d, d)
        found[f"{layer}.linear1.weight"] = (mimi.ff_width, d)
        found[f"{layer}.linear2.weight"] = (d, mimi.ff_width)
        for each in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            found[f"{layer}.{each}"] = (d,)
        found[f"{layer}.layer_scale_1.scale"] = found[f"{layer}.layer_scale_2.scale"] = (d,)
    found["downsample.conv.conv.conv.weight"] = (d, d, 4)
    for part, count in (("rvq_first", 1), ("rvq_rest", levels - 1)):
        if count:
            found[f"quantizer.{part}.input_proj.weight"] = (mimi.code_width, d, 1)
        for level in range(count):
            name = f"quantizer.{part}.vq.layers.{level}._codebook"
            found[f"{name}.cluster_usage"] = (mimi.entries,)
            found[f"{name}.embedding_sum"] = (mimi.entries, mimi.code_width)
    return found


def _part(config: Config, key: str) -> Config:
    value: Any = config.values.get(key)
    if not isinstance(value, dict):
        raise ModelFileError(config.path, f"'{key}' is {value!r}; an object is expected")
    return Config(config.path, value)


def _ratios(seanet: Config) -> tuple[int, ...]:
    ratios: Any = seanet.values.get("ratios")
    whole = isinstance(ratios, list) and all(type(each) is int and 2 <= each <= 64 for each in ratios)
    if not whole or len(ratios) > 8 or 2 * math.prod(ratios) != FRAME:
        raise ModelFileError(seanet.path, f"'ratios' is {ratios!r}; strides whose product is {FRAME // 2} are expected")
    return tuple(reversed(ratios))
