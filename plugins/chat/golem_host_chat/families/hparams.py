"""Hyper-parameters every decoder file carries, read with the file's own defaults and checked for sense."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from golem_host.ops import MAX_EXPERTS, Yarn
from golem_host.weights.gguf import Gguf, GgufError

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
"""Sizes past these are not models but damaged or hostile files."""


@dataclass(frozen=True)
class Hparams:
    """The generic keys of `<architecture>.*` (chat-models reference 1.2)."""

    layers: int
    width: int
    ff_width: int
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    context_length: int
    rms_eps: float
    rope_dims: int
    rope_base: float
    rope_scale: float
    yarn: Yarn


def read_hparams(gguf: Gguf) -> Hparams:
    """Read them. Raises `GgufError` naming the key that is missing, mistyped or out of range."""
    arch = gguf.architecture

    def positive(key: str, default: int | None = None, limit: int = MAX_WIDTH) -> int:
        value = _scalar(gguf, f"{arch}.{key}", default)
        if not 0 < value <= limit:
            raise GgufError(gguf.path, f"'{arch}.{key}' is {value}; a number from 1 to {limit} is expected")
        return value

    width, heads = positive("embedding_length"), positive("attention.head_count", limit=4096)
    kv_heads = positive("attention.head_count_kv", heads, limit=4096)
    if heads % kv_heads:
        raise GgufError(gguf.path, f"{heads} query heads do not divide into {kv_heads} key heads")
    key_dim = positive("attention.key_length", width // heads, limit=4096)
    context = positive("context_length", limit=1 << 30)
    rope_dims = positive("rope.dimension_count", key_dim, limit=key_dim)
    if rope_dims % 2:
        raise GgufError(gguf.path, f"'{arch}.rope.dimension_count' is {rope_dims}; an even number is expected")
    eps, base = gguf.f32(f"{arch}.attention.layer_norm_rms_epsilon"), gguf.f32(f"{arch}.rope.freq_base", 10000.0)
    if not 0 < eps < 1 or not 1 < base < 1e12:
        raise GgufError(gguf.path, f"'{arch}.*' epsilon {eps} or rope base {base} is out of range")
    scale, yarn = _rope_scaling(gguf, arch, context)
    return Hparams(
        layers=positive("block_count", limit=MAX_LAYERS),
        width=width,
        ff_width=positive("feed_forward_length"),
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=positive("attention.value_length", width // heads, limit=4096),
        context_length=context,
        rms_eps=eps,
        rope_dims=rope_dims,
        rope_base=base,
        rope_scale=scale,
        yarn=yarn,
    )


@dataclass(frozen=True)
class Experts:
    """The keys of an expert mixture: how many experts, how many a token uses, each one's inner width."""

    count: int
    used: int
    ff_width: int


def read_experts(gguf: Gguf, ff_width: int) -> Experts:
    """Read them; `ff_width` is what all used experts have together where their own is not told.

    Raises `GgufError` naming the key that is missing, mistyped or out of range.
    """
    prefix = f"{gguf.architecture}.expert_"
    count = _scalar(gguf, f"{prefix}count", None)
    if not 0 < count <= MAX_EXPERTS:
        raise GgufError(gguf.path, f"'{prefix}count' is {count}; a number from 1 to {MAX_EXPERTS} is expected")
    used = _scalar(gguf, f"{prefix}used_count", None)
    if not 0 < used <= count:
        raise GgufError(gguf.path, f"'{prefix}used_count' is {used}; a number from 1 to {count} is expected")
    width = _scalar(gguf, f"{prefix}feed_forward_length", ff_width // used)
    if not 0 < width <= MAX_WIDTH:
        raise GgufError(
            gguf.path, f"'{prefix}feed_forward_length' is {width}; a number from 1 to {MAX_WIDTH} is expected"
        )
    return Experts(count, used, width)


def refuse_keys(gguf: Gguf, *keys: str) -> None:
    """Refuse a file that sets one of `<architecture>.<key>` to something: a variant this family does not compute."""
    for key in keys:
        name = f"{gguf.architecture}.{key}"
        # An array is refused whatever it holds: it cannot be compared with a number, and no layer may differ.
        value = gguf.metadata.get(name, 0)
        if not isinstance(value, int | float) or value != 0:
            raise GgufError(gguf.path, f"'{name}' is {value!r}: this variant of {gguf.architecture} is not served")


def _scalar(gguf: Gguf, key: str, default: int | None) -> int:
    """An integer, stored as such or as one value for each layer that are all equal."""
    value = gguf.metadata.get(key)
    if isinstance(value, np.ndarray):
        if not len(value) or (value != value[0]).any():
            raise GgufError(gguf.path, f"'{key}' differs between layers, which this family does not have")
        return int(value[0])
    return gguf.u32(key) if default is None else gguf.u32(key, default)


def _rope_scaling(gguf: Gguf, arch: str, context: int) -> tuple[float, Yarn]:
    """The angle's scale (1/factor) and YaRN's parameters."""
    prefix = f"{arch}.rope.scaling."
    kind = gguf.string(prefix + "type", "linear")
    factor = gguf.f32(prefix + "factor", gguf.f32(f"{arch}.rope.scale_linear", 1.0)) or 1.0
    if kind not in ("none", "linear", "yarn"):
        raise GgufError(gguf.path, f"'{prefix}type' is {kind!r}; none, linear and yarn are served")
    if kind == "none" or factor <= 0:
        return 1.0, Yarn()
    if kind == "linear":
        return 1.0 / factor, Yarn()
    yarn = Yarn(
        extrapolation=1.0,
        attention_factor=gguf.f32(prefix + "attn_factor", 1.0) * gguf.f32(prefix + "yarn_attn_factor", 1.0),
        beta_fast=gguf.f32(prefix + "yarn_beta_fast", 32.0),
        beta_slow=gguf.f32(prefix + "yarn_beta_slow", 1.0),
        original_context=gguf.u32(prefix + "original_context_length", context),
    )
    return 1.0 / factor, yarn
