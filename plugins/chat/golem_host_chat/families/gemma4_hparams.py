"""Hyper-parameters of gemma4 files, which differ from layer to layer (chat-models reference 2.6)."""

from __future__ import annotations

from dataclasses import dataclass

from golem_host.weights.gguf import Gguf, GgufError
from golem_host_chat.families.hparams import (
    MAX_LAYERS,
    read_each,
    read_number,
    read_rms_eps,
    read_rope_base,
    read_softcap,
    read_windows,
    refuse_keys,
)


@dataclass(frozen=True)
class Kind:
    """What sliding layers have in common, or full ones: values of a head, of which `rope_dims` turn."""

    head_dim: int
    rope_dims: int
    rope_base: float


@dataclass(frozen=True)
class Layer:
    """One block. `window` 0 sees everything; `source` is the block whose keys and values it reads, perhaps its own."""

    window: int
    heads: int
    kv_heads: int
    head_dim: int
    ff_width: int
    source: int


@dataclass(frozen=True)
class Gemma4Hparams:
    layers: list[Layer]
    owning: int
    """Layers that have keys and values of their own; those after them reuse theirs."""
    width: int
    per_layer: int
    """Values of a layer's own embedding of a token, 0 where there is none."""
    context_length: int
    rms_eps: float
    logit_cap: float
    full: Kind
    sliding: Kind


def read_gemma4(gguf: Gguf) -> Gemma4Hparams:
    """Read them. Raises `GgufError` naming the key that is missing, mistyped or out of range."""
    refuse_keys(gguf, "nextn_predict_layers")
    for key in ("rope.scaling.factor", "rope.scale_linear"):
        if gguf.f32(f"gemma4.{key}", 1.0) not in (0.0, 1.0):
            refuse_keys(gguf, key)
    count = read_number(gguf, "block_count", limit=MAX_LAYERS)
    width = read_number(gguf, "embedding_length")
    windows = read_windows(gguf, count)
    heads = read_each(gguf, "attention.head_count", count, limit=4096)
    kv_heads = read_each(gguf, "attention.head_count_kv", count, limit=4096)
    ff_widths = read_each(gguf, "feed_forward_length", count)
    context = read_number(gguf, "context_length", limit=1 << 30)
    full, sliding = _kinds(gguf, width, heads[0])
    owning = count - read_number(gguf, "attention.shared_kv_layers", 0, least=0, limit=count - 1)
    layers = [
        Layer(
            window=windows[at],
            heads=heads[at],
            kv_heads=kv_heads[at],
            head_dim=(sliding if windows[at] else full).head_dim,
            ff_width=ff_widths[at],
            source=at if at < owning else owning - (2 if windows[at] else 1),
        )
        for at in range(count)
    ]
    for at, layer in enumerate(layers):
        _check(gguf, layers, at, layer)
    return Gemma4Hparams(
        layers=layers,
        owning=owning,
        width=width,
        per_layer=read_number(gguf, "embedding_length_per_layer_input", 0, least=0),
        context_length=context,
        rms_eps=read_rms_eps(gguf),
        logit_cap=read_softcap(gguf, "final_logit_softcapping", 30.0),
        full=full,
        sliding=sliding,
    )


def _kinds(gguf: Gguf, width: int, heads: int) -> tuple[Kind, Kind]:
    """The full and the sliding one; what a file does not say of sliding layers is as in full ones."""
    head_dim = read_number(gguf, "attention.key_length", width // heads, limit=4096)
    sliding_dim = read_number(gguf, "attention.key_length_swa", head_dim, limit=4096)
    for key, wanted in (("attention.value_length", head_dim), ("attention.value_length_swa", sliding_dim)):
        if (found := read_number(gguf, key, wanted, limit=4096)) != wanted:
            raise GgufError(gguf.path, f"'gemma4.{key}' is {found}, keys have {wanted} values; both are the same here")
    rope_dims = read_number(gguf, "rope.dimension_count", head_dim, limit=head_dim)
    sliding_rope_dims = read_number(gguf, "rope.dimension_count_swa", rope_dims, limit=sliding_dim)
    if rope_dims != head_dim:
        raise GgufError(gguf.path, f"'gemma4.rope.dimension_count' is {rope_dims}; all {head_dim} values turn here")
    if head_dim % 2 or sliding_rope_dims % 2:
        raise GgufError(gguf.path, "'gemma4.rope.dimension_count' and '..._swa' are to be even numbers")
    full = Kind(head_dim, rope_dims, read_rope_base(gguf, "freq_base", 10000.0))
    return full, Kind(sliding_dim, sliding_rope_dims, read_rope_base(gguf, "freq_base_swa", 10000.0))


def _check(gguf: Gguf, layers: list[Layer], at: int, layer: Layer) -> None:
    """Raise `GgufError` when a layer cannot read the keys and values that it is to read."""
    source = layers[layer.source] if layer.source >= 0 else None
    if source is None or source.window != layer.window:
        kind = "sliding" if layer.window else "full"
        raise GgufError(
            gguf.path,
            f"'gemma4.attention.shared_kv_layers': layer {at} reads the keys and values of layer {layer.source}, which "
            f"is not a {kind} one as it is",
        )
    if layer.heads % source.kv_heads:
        raise GgufError(
            gguf.path,
            f"'gemma4.attention.head_count_kv': {layer.heads} query heads of layer {at} do not divide into "
            f"{source.kv_heads} key heads",
        )
