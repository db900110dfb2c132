"""The text encoder: the language part of Qwen3-VL over one prompt, and what enters some of its layers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Recording, Ref, RopeStyle
from golem_host.weights import Tensor
from golem_host_krea2.blocks import product
from golem_host_krea2.files import File
from golem_host_krea2.hparams import EncoderHparams, tapped_layers
from golem_host_krea2.layer import Layer, LayerWeights, Record

EPS = 1e-6
ROPE_BASE = 5e6
_MATRICES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
}  # fmt: skip
_VECTORS = {
    "norm1": "input_layernorm", "norm2": "post_attention_layernorm",
    "norm_q": "self_attn.q_norm", "norm_k": "self_attn.k_norm",
}  # fmt: skip


def layer_weights(file: File, hparams: EncoderHparams, layer: int) -> LayerWeights:
    """Raises `ModelFileError` for tensors that are missing or of other shapes."""
    b = hparams.blocks
    q, kv = b.heads * b.head_dim, b.kv_heads * b.head_dim
    sizes = {
        "q": (q, b.width), "k": (kv, b.width), "v": (kv, b.width), "o": (b.width, q),
        "gate": (b.ff_width, b.width), "up": (b.ff_width, b.width), "down": (b.width, b.ff_width),
    }  # fmt: skip
    lengths = {"norm1": b.width, "norm2": b.width, "norm_q": b.head_dim, "norm_k": b.head_dim}
    return LayerWeights(
        {key: file.matrix(f"layers.{layer}.{_MATRICES[key]}.weight", *size) for key, size in sizes.items()},
        {key: file.floats(f"layers.{layer}.{_VECTORS[key]}.weight", length) for key, length in lengths.items()},
    )


def recorder(hparams: EncoderHparams, tokens: int) -> Record:
    """A layer over a prompt of so many tokens: `x` in, `x` out."""
    b = hparams.blocks

    def make(recording: Recording, w: Mapping[str, Tensor]) -> Mapping[str, Ref]:
        rows = recording.axis("tokens", tokens)
        x = recording.input("x", rows, b.width, dtype="f32")
        angles = recording.input("angles", rows, b.head_dim // 2, 2, dtype="f32")
        y = ops.rms_norm(x, w["norm1"], EPS)
        q, k, v = (product(y, w[name]) for name in "qkv")
        q = ops.rms_norm(q.reshape(b.heads, b.head_dim), w["norm_q"], EPS)
        k = ops.rms_norm(k.reshape(b.kv_heads, b.head_dim), w["norm_k"], EPS)
        q, k = (ops.rope(each, angles, RopeStyle.NEOX) for each in (q, k))
        v = v.reshape(b.kv_heads, b.head_dim)
        mixed = ops.full_attention(q, k, v, scale=b.head_dim**-0.5, causal=True)
        x = ops.add(x, product(mixed.reshape(b.heads * b.head_dim), w["o"]))
        y = ops.rms_norm(x, w["norm2"], EPS)
        y = product(ops.swiglu(product(y, w["gate"]), product(y, w["up"])), w["down"])
        return {"x": ops.add(x, y)}

    return make


def angles(count: int, dims: int) -> NDArray[np.float32]:
    """cos and sin (count, dims/2, 2) of positions 0 .. count."""
    turns = np.arange(count)[:, None] * ROPE_BASE ** (-np.arange(0, dims, 2) / dims)
    return np.stack([np.cos(turns), np.sin(turns)], -1).astype(np.float32)


def encode(
    backend: Any, file: File, hparams: EncoderHparams, taps: int, ids: Sequence[int], first: int
) -> Generator[None, float | None, NDArray[np.float32]]:
    """(tokens, taps, width): what enters the tapped layers at the tokens from `first` on. Yields between pieces."""
    layer = Layer(backend, recorder(hparams, len(ids)))
    x = file.table("embed_tokens.weight", hparams.vocabulary, hparams.blocks.width).rows(list(ids))
    turned = angles(len(ids), hparams.blocks.head_dim)
    tapped = tapped_layers(taps)
    found = np.empty((len(ids) - first, taps, hparams.blocks.width), np.float32)
    for number in range(hparams.layers + 1):
        if number in tapped:
            found[:, tapped.index(number)] = x[first:]
        if number == hparams.layers:
            break
        file.check_there()
        yield from layer.bring(layer_weights(file, hparams, number))
        yield from layer.run({"x": x, "angles": turned}, {"tokens": len(ids)})
        x = layer.output("x")
    return found
