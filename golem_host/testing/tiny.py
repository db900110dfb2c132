"""Tiny random GGUF checkpoints of true structure, for tests of families, readers, tokenizers and servers.

`tiny_gguf` writes a file that llama.cpp loads too: the family's metadata keys and tensors, weights scaled so that every
layer changes the stream and the logits are neither flat nor stuck on the last token, a small real tokenizer and a chat
template. Needs the `gguf` package and numpy (extra `test`); no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import gguf
import numpy as np

from golem_host.testing import tiny_qwen35
from golem_host.testing.random_blocks import random_blocks
from golem_host.testing.tiny_gemma4 import Gemma4Shape, gemma4_keys, gemma4_tensors
from golem_host.testing.tiny_variants import attention_biases, fused_attention, mistral3_keys, with_experts
from golem_host.testing.tiny_vocab import Vocabulary, vocabulary
from golem_host.weights.types import GgmlType

ARCHITECTURES = (
    *("llama", "mistral3", "smollm3", "gemma2", "gemma3", "gemma4"),
    *("qwen2", "qwen3", "qwen3moe", "qwen35", "qwen35moe"),
)
_GEMMA = ("gemma2", "gemma3")
_LIKE_LLAMA = ("llama", "mistral3", "qwen2", "smollm3")
"""Their heads share the width and have no norms."""
_MIXTURES = ("llama", "qwen3moe", "qwen35moe")
_TOKENIZERS = {"gemma2": "spm", "gemma3": "spm", "gemma4": "gemma4"}

_RANDOM_BLOCKS = {
    # Types the gguf package cannot quantize to.
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "Q1_0", "Q2_0", "PQ2_0", "PTQ1_0"),
    *("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
}


def tiny_gguf(
    path: str | Path,
    architecture: str = "llama",
    *,
    seed: int = 0,
    quantization: str = "F32",
    types: Mapping[str, str] | None = None,
    layers: int | None = None,
    width: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    head_width: int | None = None,
    feed_forward: int | None = None,
    experts: int | None = None,
    experts_used: int = 3,
    context: int = 512,
    window: int = 32,
    tied: bool = True,
    rope_factors: bool = False,
    delta_net: Mapping[str, Any] | None = None,
    gemma4: Gemma4Shape | None = None,
    fused: bool = False,
    tokenizer: str | None = None,
    words: Vocabulary | None = None,
    shards: int = 1,
    metadata: Mapping[str, Any] | None = None,
    extra_tensors: Mapping[str, np.ndarray] | None = None,
    change: Callable[[dict[str, np.ndarray]], dict[str, Any]] | None = None,
) -> Path:
    """Write a checkpoint and return its path (the first shard's when `shards` > 1, named `*-00001-of-0000N.gguf`).

    `architecture`: one of `ARCHITECTURES`. `quantization`: the ggml type of every matrix (norms and routers stay F32);
    `types` overrides it by tensor name without block prefix and suffix, {"token_embd": "Q8_0", "ffn_down": "Q6_K"}.
    Types without a quantizer hold random valid blocks; rows must be whole blocks, so give widths in multiples of 256
    for K types. `layers`: 2 (gemma2, qwen35: 4; gemma3: 7; smollm3: 5; one layer unlike the others). `head_width`:
    width / heads for llama and its like, twice that for the families where it is free. `experts` (8; Mixtral's for
    llama, else none), `experts_used`: of a mixture, whose `feed_forward` is each expert's. `fused` stores queries, keys
    and values as one `attn_qkv`. `window`: keys a sliding gemma layer sees; the context of mistral3 that it is scaled
    from. `tied=False` adds `output.weight`. `rope_factors`: Llama 3.1's `rope_freqs.weight`. `delta_net`: further
    sizes of a qwen35, members of `tiny_qwen35.Shape`. `gemma4`: all sizes of a gemma4; E2B's structure of the sizes
    given by default. `tokenizer`: "bpe" or "spm" (the family's own by default); `words`: another vocabulary.
    `metadata` adds or replaces keys (None removes one); `extra_tensors` are written as F32; `change` may replace the
    others, and returns further keys.

    Raises ValueError for an unknown architecture or type, and for rows that are not whole blocks.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {architecture!r}, expected one of {', '.join(ARCHITECTURES)}")
    if layers is None:
        layers = {"gemma2": 4, "gemma3": 7, "qwen35": 4, "qwen35moe": 4, "smollm3": 5}.get(architecture, 2)
    if experts is None:
        experts = 8 if architecture in ("qwen3moe", "qwen35moe") else 0
    if experts and architecture not in _MIXTURES:
        raise ValueError(f"{architecture} has no expert mixture")
    if head_width is None:
        head_width = width // heads * (1 if architecture in _LIKE_LLAMA else 2)
    feed_forward = feed_forward or 2 * width
    if rope_factors and architecture != "llama":
        raise ValueError("rope factors belong to the llama architecture")
    words = words or vocabulary(architecture, tokenizer or _TOKENIZERS.get(architecture, "bpe"))

    keys: dict[str, Any] = {
        "general.name": f"tiny {architecture}",
        "general.license": "mit",
        "context_length": context,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": feed_forward,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-6 if architecture != "llama" else 1e-5,
        "rope.freq_base": 10000.0 if architecture in ("llama", "gemma2") else 1e6,
    }
    if architecture in ("llama", "mistral3", "smollm3"):
        keys["rope.dimension_count"] = head_width
        keys["vocab_size"] = len(words)
    if architecture not in _LIKE_LLAMA or head_width != width // heads:
        keys["attention.key_length"] = head_width
        keys["attention.value_length"] = head_width
    if architecture in _GEMMA:
        keys["attention.sliding_window"] = window
    if architecture == "gemma2":
        keys["attn_logit_softcapping"] = 3.0  # of scores of about 2: 50, as in real files, would hardly show
        keys["final_logit_softcapping"] = 30.0
    shape: tiny_qwen35.Shape | None = None
    if architecture in ("qwen35", "qwen35moe"):
        sizes: dict[str, Any] = {"state": width // 4} | dict(delta_net or {})
        if architecture == "qwen35moe":
            sizes |= {"experts": experts, "experts_used": experts_used}
        shape = tiny_qwen35.Shape(layers, width, heads, kv_heads, head_width, feed_forward, **sizes)
        keys |= tiny_qwen35.keys_of(shape)
    elif experts:
        keys["expert_count"] = experts
        keys["expert_used_count"] = experts_used
    if architecture == "qwen3moe":
        keys["expert_feed_forward_length"] = feed_forward
    if architecture == "gemma4":
        gemma4 = gemma4 or Gemma4Shape(
            width=width, heads=heads, kv_heads=kv_heads, full_kv_heads=kv_heads, head_width=head_width,
            feed_forward=feed_forward, per_layer=width, window=window, context=context, tied=tied,
        )  # fmt: skip
        keys |= gemma4_keys(gemma4)
    if architecture == "mistral3":
        keys |= mistral3_keys(original_context=window)
    keys = {
        name if "." in name and name.startswith("general.") else f"{architecture}.{name}": v for name, v in keys.items()
    }
    keys |= tokenizer_keys(words)
    random = np.random.default_rng(seed)
    if shape is not None:
        tensors = tiny_qwen35.tensors_of(random, len(words), shape, tied=tied)
    elif gemma4 is not None:
        tensors = gemma4_tensors(random, len(words), gemma4)
    else:
        tensors = _tensors(
            random, architecture, len(words), layers, width, heads, kv_heads, head_width, feed_forward, tied
        )
        if architecture == "qwen2":
            tensors |= attention_biases(random, tensors)
        if experts:
            tensors = with_experts(random, tensors, experts)
    if fused:
        tensors = fused_attention(tensors)
    if rope_factors:
        tensors["rope_freqs.weight"] = llama3_rope_factors(head_width, original_context=64)

    if change is not None:
        keys |= change(tensors)
    keys |= metadata or {}
    return write_gguf(
        Path(path), architecture, keys, tensors, quantization, types or {}, extra_tensors=extra_tensors or {},
        shards=shards, random=random,
    )  # fmt: skip


def write_gguf(
    path: Path,
    architecture: str,
    keys: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    quantization: str,
    types: Mapping[str, str],
    *,
    random: np.random.Generator,
    extra_tensors: Mapping[str, np.ndarray] | None = None,
    shards: int = 1,
) -> Path:
    """Write keys and tensors and return the path, the first shard's when `shards` > 1.

    Matrices are stored as `quantization`, or by role (the name without block prefix and suffix) as `types` says;
    vectors, routers, convolutions and `extra_tensors` as F32. Keys whose value is None are left out.
    """
    keys = {name: value for name, value in keys.items() if value is not None}
    total = len(tensors) + len(extra_tensors or {})
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=math.ceil(total / shards) if shards > 1 else 0)
    if alignment := keys.pop("general.alignment", None):
        writer.add_custom_alignment(alignment)
    for name, value in keys.items():
        _add(writer, name, value)
    for name, tensor in tensors.items():
        role = name.split(".")[2] if name.startswith("blk.") else name.split(".")[0]
        default = "F32" if role in ("ffn_gate_inp", "ssm_conv1d") else quantization
        kind = "F32" if tensor.ndim == 1 else types.get(role, default)
        data = encode(random, tensor, kind).view(np.int8)  # bytes of a shape of their own
        number = cast(gguf.GGMLQuantizationType, GgmlType[kind])  # the package does not know all of them
        writer.add_tensor(name, data, raw_shape=tensor.shape, raw_dtype=number)
    for name, tensor in (extra_tensors or {}).items():
        writer.add_tensor(name, np.ascontiguousarray(tensor, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path if shards == 1 else path.with_name(gguf.SHARD_NAME_FORMAT.format(path.stem, 1, len(writer.tensors)))


def llama3_rope_factors(head_width: int, *, original_context: int, base: float = 10000.0) -> np.ndarray:
    """Angle divisors of Llama 3.1 (factor 8, low 1, high 4): shape (head_width / 2,), float32."""
    wavelength = 2 * math.pi * base ** (np.arange(0, head_width, 2) / head_width)
    smooth = np.clip((original_context / wavelength - 1) / (4 - 1), 0, 1)
    return (1 / ((1 - smooth) / 8 + smooth)).astype(np.float32)


def encode(random: np.random.Generator, tensor: np.ndarray, kind: str) -> np.ndarray:
    """A float32 (rows, columns) matrix as bytes of ggml type `kind`: shape (rows, row bytes), uint8 (F32 and F16: their
    dtype).

    Types without a quantizer: random blocks with the matrix's standard deviation instead of its values.
    """
    if kind not in GgmlType.__members__:
        raise ValueError(f"unknown ggml type {kind!r}")
    number = GgmlType[kind]
    if tensor.shape[-1] % number.block_size:
        raise ValueError(f"{kind} needs rows of whole blocks of {number.block_size}, got {tensor.shape[-1]} columns")
    if kind not in _RANDOM_BLOCKS:
        return gguf.quants.quantize(tensor, gguf.GGMLQuantizationType[kind])
    blocks = random_blocks(random, kind, tensor.size // number.block_size, float(tensor.std()))
    return blocks.reshape(tensor.shape[0], -1)


def tokenizer_keys(words: Vocabulary) -> dict[str, Any]:
    """The metadata that holds a vocabulary and its chat template."""
    keys: dict[str, Any] = {"model": words.model, "tokens": words.tokens, "token_type": words.types}
    if words.scores is not None:
        keys["scores"] = words.scores
    if words.merges is not None:
        keys["merges"] = words.merges
    keys |= words.keys
    return {f"tokenizer.ggml.{name}": value for name, value in keys.items()} | {
        "tokenizer.chat_template": words.chat_template
    }


def _tensors(
    random: np.random.Generator,
    architecture: str,
    tokens: int,
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    head_width: int,
    feed_forward: int,
    tied: bool,
) -> dict[str, np.ndarray]:
    """Float32 tensors by name; matrices are (out, in).

    Scales: the embedding leaves the stream small beside what the blocks add (else a tied head only repeats the last
    token); the final norm stretches logits to a standard deviation of about 4; queries and keys give attention scores
    of about 2.
    """

    def matrix(rows: int, columns: int, gain: float = 1.0) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * gain / math.sqrt(columns)).astype(np.float32)

    def norm(size: int, mean: float = 1.0) -> np.ndarray:
        return (mean * (1 + 0.2 * random.standard_normal(size))).astype(np.float32)

    # Gemma multiplies embeddings by sqrt(width).
    tensors = {"token_embd.weight": matrix(tokens, width, 0.3 if architecture in _GEMMA else 1.0)}
    for layer in range(layers):
        block = {
            "attn_norm": norm(width),
            "attn_q": matrix(heads * head_width, width, 1.5),
            "attn_k": matrix(kv_heads * head_width, width, 1.5),
            "attn_v": matrix(kv_heads * head_width, width),
            "attn_output": matrix(width, heads * head_width, 2.0),
            "ffn_norm": norm(width),
            "ffn_gate": matrix(feed_forward, width),
            "ffn_up": matrix(feed_forward, width),
            "ffn_down": matrix(width, feed_forward, 2.0),
        }
        if architecture not in (*_LIKE_LLAMA, "gemma2"):
            block["attn_q_norm"] = norm(head_width, 1.5)
            block["attn_k_norm"] = norm(head_width, 1.5)
        if architecture in _GEMMA:
            block["post_attention_norm"] = norm(width)
            block["post_ffw_norm"] = norm(width)
        tensors |= {f"blk.{layer}.{name}.weight": value for name, value in block.items()}
    tensors["output_norm.weight"] = norm(width, 12.0 if architecture in _GEMMA else 4.0)
    if not tied:
        tensors["output.weight"] = matrix(tokens, width, 0.3 if architecture in _GEMMA else 1.0)
    return tensors


def _add(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif isinstance(value, str):
        writer.add_string(name, value)
    elif isinstance(value, bytes):
        writer.add_key_value(name, value, gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType.UINT8)
    else:
        writer.add_array(name, list(value))
