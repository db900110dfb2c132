"""Shapes of published checkpoints: metadata, tensors with their types as a quantizer mixes them, vocabulary.

Tensor names and keys: the `load_arch_hparams` and `load_arch_tensors` functions of llama.cpp's src/models/qwen3.cpp,
qwen3moe.cpp and gemma4.cpp. Which tensor gets which type: `llama_tensor_get_type_impl` of its llama-quant.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from golem_host.testing.tiny_vocab import Vocabulary
from shape_vocabulary import gemma4_vocabulary, qwen3_vocabulary


@dataclass(frozen=True)
class TensorShape:
    """A tensor to fill: `dims` in ggml's order (row length first), `kind` its ggml type, values around `mean` with
    standard deviation `spread`; `values` instead where they matter.
    """

    name: str
    dims: tuple[int, ...]
    kind: str
    spread: float
    mean: float = 0.0
    values: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Shape:
    """A checkpoint without its weights; `metadata` has no tokenizer keys."""

    metadata: dict[str, Any]
    tensors: list[TensorShape]
    vocabulary: Vocabulary


@dataclass(frozen=True)
class Experts:
    """A mixture in place of every feed-forward: `used` of `count` experts with `feed_forward` inner values each."""

    count: int
    used: int
    feed_forward: int


@dataclass(frozen=True)
class Mix:
    """How llama-quantize mixes types: `kind` gives a matrix's from its role, its layer and the number of layers;
    `file_type` is the `general.file_type` (enum llama_ftype).
    """

    file_type: int
    kind: Callable[[str, int, int], str]


TABLES = ("token_embd", "per_layer_token_embd", "output")


def _q4_0(role: str, layer: int, layers: int) -> str:
    return "Q6_K" if role in TABLES else "Q4_0"


def _q4_k_m(role: str, layer: int, layers: int) -> str:
    """More bits for the tables, and in half of the layers for values and what leaves the feed-forward."""
    first, last = layers // 8, 7 * layers // 8
    if role in ("attn_v", "ffn_down", "ffn_down_exps"):
        return "Q6_K" if layer < first or layer >= last or (layer - first) % 3 == 2 else "Q4_K"
    return "Q6_K" if role in TABLES else "Q4_K"


def whole(kind: str, file_type: int) -> Mix:
    """Every matrix of one type."""
    return Mix(file_type, lambda role, layer, layers: kind)


Q4_0 = Mix(2, _q4_0)
Q4_K_M = Mix(15, _q4_k_m)


def qwen3(
    mix: Mix,
    *,
    layers: int,
    width: int,
    feed_forward: int,
    heads: int,
    kv_heads: int = 8,
    head_width: int = 128,
    tokens: int = 151936,
    tied: bool = True,
    experts: Experts | None = None,
) -> Shape:
    """Qwen3, dense or (with `experts`) as a mixture."""
    keys = {
        "context_length": 40960,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": feed_forward,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head_width,
        "attention.value_length": head_width,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6,
    }
    if experts:
        keys["expert_count"] = experts.count
        keys["expert_used_count"] = experts.used
        keys["expert_feed_forward_length"] = experts.feed_forward

    def matrix(role: str, columns: int, *rest: int, layer: int = 0, gain: float = 1.0, name: str = "") -> TensorShape:
        return random_matrix(name or f"blk.{layer}.{role}", (columns, *rest), mix.kind(role, layer, layers), gain)

    def block(at: int) -> Iterator[TensorShape]:
        yield random_norm(f"blk.{at}.attn_norm", width)
        yield matrix("attn_q", width, heads * head_width, layer=at, gain=1.5)
        yield matrix("attn_k", width, kv_heads * head_width, layer=at, gain=1.5)
        yield matrix("attn_v", width, kv_heads * head_width, layer=at)
        yield matrix("attn_output", heads * head_width, width, layer=at, gain=2)
        yield random_norm(f"blk.{at}.attn_q_norm", head_width, 1.5)
        yield random_norm(f"blk.{at}.attn_k_norm", head_width, 1.5)
        yield random_norm(f"blk.{at}.ffn_norm", width)
        if experts:
            inner, count = experts.feed_forward, experts.count
            yield random_matrix(f"blk.{at}.ffn_gate_inp", (width, count), "F32")
            yield matrix("ffn_gate_exps", width, inner, count, layer=at)
            yield matrix("ffn_up_exps", width, inner, count, layer=at)
            yield matrix("ffn_down_exps", inner, width, count, layer=at, gain=2)
        else:
            yield matrix("ffn_gate", width, feed_forward, layer=at)
            yield matrix("ffn_up", width, feed_forward, layer=at)
            yield matrix("ffn_down", feed_forward, width, layer=at, gain=2)

    tensors = [matrix("token_embd", width, tokens, name="token_embd"), random_norm("output_norm", width, 4.0)]
    if not tied:
        tensors.append(matrix("output", width, tokens, name="output"))
    for at in range(layers):
        tensors += block(at)
    architecture = "qwen3moe" if experts else "qwen3"
    return Shape(metadata_of(architecture, keys, mix), tensors, qwen3_vocabulary(tokens))


def gemma4(
    mix: Mix,
    *,
    layers: int = 35,
    shared: int = 20,
    width: int = 1536,
    feed_forward: int = 6144,
    heads: int = 8,
    kv_heads: int = 1,
    head_width: int = 512,
    per_layer: int = 256,
    window: int = 512,
    tokens: int = 262144,
) -> Shape:
    """Gemma 4 with per-layer embeddings, E2B unless told otherwise: every fifth layer sees everything, with heads of
    `head_width`, the others a window, with half of that; the last `shared` layers reuse earlier keys and values and
    have a feed-forward twice as wide.
    """
    sliding = [at % 5 != 4 for at in range(layers)]
    inner = [feed_forward * (1 if at < layers - shared else 2) for at in range(layers)]
    keys = {
        "context_length": 131072,
        "embedding_length": width,
        "embedding_length_per_layer_input": per_layer,
        "block_count": layers,
        "feed_forward_length": np.array(inner, np.int32),
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head_width,
        "attention.value_length": head_width,
        "attention.key_length_swa": head_width // 2,
        "attention.value_length_swa": head_width // 2,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": window,
        "attention.sliding_window_pattern": np.array(sliding),
        "attention.shared_kv_layers": shared,
        "rope.dimension_count": head_width,
        "rope.dimension_count_swa": head_width // 2,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "final_logit_softcapping": 30.0,
    }

    def matrix(role: str, columns: int, rows: int, *, layer: int = 0, gain: float = 1.0, name: str = "") -> TensorShape:
        return random_matrix(name or f"blk.{layer}.{role}", (columns, rows), mix.kind(role, layer, layers), gain)

    def block(at: int) -> Iterator[TensorShape]:
        head = head_width // 2 if sliding[at] else head_width
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"):
            yield random_norm(f"blk.{at}.{norm}", width)
        # Scores are not divided by the root of the head width.
        yield random_norm(f"blk.{at}.attn_q_norm", head, 0.35)
        yield random_norm(f"blk.{at}.attn_k_norm", head, 0.35)
        yield TensorShape(f"blk.{at}.layer_output_scale.weight", (1,), "F32", 0.0, mean=0.9)
        yield matrix("attn_q", width, heads * head, layer=at)
        yield matrix("attn_k", width, kv_heads * head, layer=at)
        yield matrix("attn_v", width, kv_heads * head, layer=at)
        yield matrix("attn_output", heads * head, width, layer=at)
        yield matrix("ffn_gate", width, inner[at], layer=at)
        yield matrix("ffn_up", width, inner[at], layer=at)
        yield matrix("ffn_down", inner[at], width, layer=at)
        yield matrix("inp_gate", width, per_layer, layer=at)
        yield matrix("proj", per_layer, width, layer=at)

    unturned = np.full(head_width // 2, 1e30, np.float32)
    unturned[: head_width // 8] = 1.0
    tensors = [
        matrix("token_embd", width, tokens, gain=0.3, name="token_embd"),
        matrix("per_layer_token_embd", per_layer * layers, tokens, name="per_layer_token_embd"),
        random_matrix("per_layer_model_proj", (width, per_layer * layers), "BF16"),
        random_norm("per_layer_proj_norm", per_layer),
        random_norm("output_norm", width, 12.0),
        TensorShape("rope_freqs.weight", (len(unturned),), "F32", 0.0, values=unturned),
    ]
    for at in range(layers):
        tensors += block(at)
    return Shape(metadata_of("gemma4", keys, mix), tensors, gemma4_vocabulary(tokens))


def metadata_of(architecture: str, keys: dict[str, Any], mix: Mix) -> dict[str, Any]:
    general = {
        "general.architecture": architecture,
        "general.type": "model",
        "general.name": f"random {architecture}",
        "general.file_type": mix.file_type,
        "general.quantization_version": 2,
    }
    return general | {f"{architecture}.{name}": value for name, value in keys.items()}


def random_matrix(name: str, dims: tuple[int, ...], kind: str, gain: float = 1.0) -> TensorShape:
    """Keeps a normed stream near its size: products have a standard deviation of `gain`."""
    return TensorShape(f"{name}.weight", dims, kind, gain / math.sqrt(dims[0]))


def random_norm(name: str, size: int, mean: float = 1.0) -> TensorShape:
    return TensorShape(f"{name}.weight", (size,), "F32", 0.2 * mean, mean=mean)
