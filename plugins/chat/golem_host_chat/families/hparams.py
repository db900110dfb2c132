"""Hyper-parameters every decoder file carries, read with the file's own defaults and checked for sense."""

from __future__ import annotations

import math
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
    width, heads = read_number(gguf, "embedding_length"), read_number(gguf, "attention.head_count", limit=4096)
    kv_heads = read_number(gguf, "attention.head_count_kv", heads, limit=4096)
    if heads % kv_heads:
        raise GgufError(
            gguf.path, f"'{arch}.attention.head_count' is {heads}, which {kv_heads} key heads do not divide"
        )
    key_dim = read_number(gguf, "attention.key_length", width // heads, limit=4096)
    context = read_number(gguf, "context_length", limit=1 << 30)
    rope_dims = read_number(gguf, "rope.dimension_count", key_dim, limit=key_dim)
    if rope_dims % 2:
        raise GgufError(gguf.path, f"'{arch}.rope.dimension_count' is {rope_dims}; an even number is expected")
    scale, yarn = _rope_scaling(gguf, arch, context)
    # A file whose feed-forwards are all mixtures may tell the width of their experts only.
    expert_width = "expert_feed_forward_length"
    ff_width = read_number(gguf, expert_width) if f"{arch}.{expert_width}" in gguf.metadata else None
    return Hparams(
        layers=read_number(gguf, "block_count", limit=MAX_LAYERS),
        width=width,
        ff_width=read_number(gguf, "feed_forward_length", ff_width),
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=read_number(gguf, "attention.value_length", width // heads, limit=4096),
        context_length=context,
        rms_eps=read_rms_eps(gguf),
        rope_dims=rope_dims,
        rope_base=read_rope_base(gguf, "freq_base", 10000.0),
        rope_scale=scale,
        yarn=yarn,
    )


def require_whole_rope(gguf: Gguf, hp: Hparams) -> None:
    """Refuse a file whose rotation leaves a part of each head as it is. Raises `GgufError` naming the key."""
    if hp.rope_dims != hp.key_dim:
        raise GgufError(
            gguf.path,
            f"'{gguf.architecture}.rope.dimension_count' is {hp.rope_dims} of {hp.key_dim} head values; "
            f"{gguf.architecture} turns all of them",
        )


def read_number(gguf: Gguf, key: str, default: int | None = None, *, least: int = 1, limit: int = MAX_WIDTH) -> int:
    """`<architecture>.<key>` from `least` to `limit`, stored as an integer or as one for each layer that are all equal.

    Raises `GgufError` naming a key that is missing, mistyped or out of range.
    """
    name = f"{gguf.architecture}.{key}"
    return _in_range(gguf, name, _scalar(gguf, name, default), least, limit)


def read_each(gguf: Gguf, key: str, layers: int, *, limit: int = MAX_WIDTH) -> list[int]:
    """`<architecture>.<key>` of each layer from 1 to `limit`, stored as one integer or as one for each layer.

    Raises `GgufError` naming a key that is missing, mistyped, too short or out of range.
    """
    name = f"{gguf.architecture}.{key}"
    value = gguf.metadata.get(name)
    if not isinstance(value, np.ndarray):
        return [_in_range(gguf, name, gguf.u32(name), 1, limit)] * layers
    if len(value) != layers or value.dtype.kind not in "iu":
        raise GgufError(
            gguf.path,
            f"'{name}' is an array of {len(value)} {value.dtype.name}; an integer for each of {layers} layers is "
            "expected",
        )
    return [_in_range(gguf, name, each, 1, limit) for each in value.tolist()]


def read_rms_eps(gguf: Gguf) -> float:
    """`<architecture>.attention.layer_norm_rms_epsilon`. Raises `GgufError` naming the key."""
    name = f"{gguf.architecture}.attention.layer_norm_rms_epsilon"
    eps = gguf.f32(name)
    if not 0 < eps < 1:
        raise GgufError(gguf.path, f"'{name}' is {eps}; a number from 0 to 1 is expected")
    return eps


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
    count = read_number(gguf, "expert_count", limit=MAX_EXPERTS)
    used = read_number(gguf, "expert_used_count", limit=count)
    return Experts(count, used, read_number(gguf, "expert_feed_forward_length", ff_width // used))


def refuse_keys(gguf: Gguf, *keys: str) -> None:
    """Refuse a file that sets one of `<architecture>.<key>` to something: a variant this family does not compute."""
    for key in keys:
        name = f"{gguf.architecture}.{key}"
        # An array is refused whatever it holds: it cannot be compared with a number, and no layer may differ.
        value = gguf.metadata.get(name, 0)
        if not isinstance(value, int | float) or value != 0:
            raise GgufError(gguf.path, f"'{name}' is {value!r}: this variant of {gguf.architecture} is not served")


def read_windows(gguf: Gguf, layers: int, *, window: int | None = None, period: int | None = None) -> list[int]:
    """The sliding window of each layer, 0 for those that see everything.

    `window` and `period` (the last of each `period` layers sees everything) are those of files that name none; a family
    without a `period` must list its layers. Raises `GgufError` naming the key.
    """
    key = f"{gguf.architecture}.attention.sliding_window"
    found = gguf.u32(key) if window is None else gguf.u32(key, window)
    if not 0 < found < 1 << 31:
        raise GgufError(gguf.path, f"'{key}' is {found}; a number of positions is expected")
    key += "_pattern"
    pattern = gguf.array(key) if period is None else gguf.metadata.get(key, period)
    if isinstance(pattern, np.ndarray):
        if len(pattern) < layers or pattern.dtype.kind not in "biu":
            raise GgufError(
                gguf.path,
                f"'{key}' is an array of {len(pattern)} {pattern.dtype.name}; true or false for each of {layers} "
                "layers is expected",
            )
        return [found if sliding else 0 for sliding in pattern[:layers].tolist()]
    if type(pattern) is not int or pattern < 1:
        raise GgufError(gguf.path, f"'{key}' is {pattern!r}; a number of layers is expected")
    return [found if i % pattern < pattern - 1 else 0 for i in range(layers)]


def read_softcap(gguf: Gguf, key: str, default: float) -> float:
    """`<architecture>.<key>`, 0 where nothing is capped. Raises `GgufError` naming the key."""
    name = f"{gguf.architecture}.{key}"
    cap = gguf.f32(name, default)
    if not 0 <= cap < math.inf:
        raise GgufError(gguf.path, f"'{name}' is {cap}; a positive number is expected")
    return cap


def read_rope_base(gguf: Gguf, key: str, default: float) -> float:
    """`<architecture>.rope.<key>`. Raises `GgufError` naming the key."""
    name = f"{gguf.architecture}.rope.{key}"
    base = gguf.f32(name, default)
    if not 1 < base < 1e12:
        raise GgufError(gguf.path, f"'{name}' is {base}; a number from 1 to 1e12 is expected")
    return base


def _in_range(gguf: Gguf, name: str, value: int, least: int, limit: int) -> int:
    if not least <= value <= limit:
        raise GgufError(gguf.path, f"'{name}' is {value}; a number from {least} to {limit} is expected")
    return value


def _scalar(gguf: Gguf, key: str, default: int | None) -> int:
    """An integer, stored as such or as one value for each layer that are all equal."""
    value = gguf.metadata.get(key)
    if isinstance(value, np.ndarray):
        if not len(value) or value.dtype.kind not in "iu" or (value != value[0]).any():
            raise GgufError(gguf.path, f"'{key}' is not one integer for all layers, as this family has it")
        return int(value[0])
    return gguf.u32(key) if default is None else gguf.u32(key, default)


def _rope_scaling(gguf: Gguf, arch: str, context: int) -> tuple[float, Yarn]:
    """The angle's scale (1/factor) and YaRN's parameters."""
    prefix = f"{arch}.rope.scaling."
    kind = gguf.string(prefix + "type", "linear")
    factor = gguf.f32(prefix + "factor", gguf.f32(f"{arch}.rope.scale_linear", 1.0)) or 1.0
    if kind not in ("none", "linear", "yarn"):
        raise GgufError(gguf.path, f"'{prefix}type' is {kind!r}; none, linear and yarn are served")
    if not 1e-6 < factor < 1e6:
        raise GgufError(gguf.path, f"'{prefix}factor' is {factor}; a number from 1e-6 to 1e6 is expected")
    if kind == "none":
        return 1.0, Yarn()
    if kind == "linear":
        return 1.0 / factor, Yarn()

    def positive(key: str, default: float) -> float:
        value = gguf.f32(prefix + key, default)
        if not 0 < value < 1e6:
            raise GgufError(gguf.path, f"'{prefix}{key}' is {value}; a number from 0 to 1e6 is expected")
        return value

    original = gguf.u32(prefix + "original_context_length", context)
    yarn = Yarn(
        extrapolation=1.0,
        attention_factor=positive("attn_factor", 1.0) * positive("yarn_attn_factor", 1.0),
        beta_fast=positive("yarn_beta_fast", 32.0),
        beta_slow=positive("yarn_beta_slow", 1.0),
        original_context=_in_range(gguf, prefix + "original_context_length", original, 1, 1 << 30),
    )
    return 1.0 / factor, yarn
