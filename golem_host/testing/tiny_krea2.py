"""Tiny ComfyUI directories with random Krea 2 weights, of the structure of the published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_laya import stored

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("u s", "us e", "use r")
"""So that `user` is one token, as it is in Qwen's vocabulary."""
TOKENIZER = Path("comfy/text_encoders/qwen25_tokenizer")
Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class TinyKrea2:
    """Sizes. Taps of the encoder are the inputs of layers 2, 5, 8 ..., so it has 3 * taps - 1 layers."""

    width: int = 128
    ff_width: int = 96
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    layers: int = 2
    taps: int = 3
    text_width: int = 64
    text_ff_width: int = 80
    text_heads: int = 2
    time_dim: int = 32
    encoder_heads: int = 4
    encoder_kv_heads: int = 2
    encoder_head_dim: int = 16
    vae_channels: int = 8
    seed: int = 1


def tiny_krea2_directory(
    path: Path, sizes: TinyKrea2 | None = None, *, dtype: str = "BF16", prefix: str = "", encoder_prefix: str = "model."
) -> Path:
    """A ComfyUI root in `path` with its tokenizer. `dtype`: F32, F16, BF16, or FP8 and FP8_OLD for matrices in float8
    with a scale each (`weight_scale` and `comfy_quant`; `scale_weight` and `scaled_fp8`) beside BF16.
    """
    sizes = sizes or TinyKrea2()
    write_role(path / "models/diffusion_models/krea2_turbo.safetensors", dit_tensors(sizes), dtype, prefix)
    write_role(path / "models/text_encoders/qwen3vl_4b.safetensors", encoder_tensors(sizes), dtype, encoder_prefix)
    write_role(path / "models/vae/qwen_image_vae.safetensors", vae_tensors(sizes), "BF16" if "FP8" in dtype else dtype)
    write_tokenizer(path / TOKENIZER)
    return path


def write_role(path: Path, tensors: Mapping[str, NDArray[np.float32]], dtype: str, prefix: str = "") -> None:
    """One file of float tensors in the way that `tiny_krea2_directory` says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw: Tensors = {}
    dtypes: dict[str, str] = {}
    for name, value in tensors.items():
        full = prefix + name
        if (
            dtype.startswith("FP8")
            and value.ndim == 2
            and name.startswith(("blocks.", "layers.", "txtfusion."))
            and min(value.shape) > 1
        ):
            codes, scale = fp8(value)
            raw[full], dtypes[full] = codes, "F8_E4M3"
            raw |= _scales(full.removesuffix(".weight"), scale, dtype)
        else:
            raw[full] = stored(value, "BF16" if dtype.startswith("FP8") else dtype)
    if dtype == "FP8_OLD":
        raw[prefix + "scaled_fp8"], dtypes[prefix + "scaled_fp8"] = np.zeros(0, np.uint8), "F8_E4M3"
    raw = dict(sorted(raw.items(), key=lambda item: -item[1].itemsize))  # so that every tensor is aligned
    path.write_bytes(safetensors_bytes(raw, dtypes=dtypes))


def _scales(layer: str, scale: np.float32, dtype: str) -> Tensors:
    if dtype == "FP8_OLD":
        return {f"{layer}.scale_weight": np.array([scale], np.float32)}
    text = json.dumps({"format": "float8_e4m3fn"}).encode()
    return {
        f"{layer}.weight_scale": np.array(scale, np.float32),
        f"{layer}.comfy_quant": np.frombuffer(text, np.uint8),
    }


def fp8(value: NDArray[np.float32]) -> tuple[NDArray[np.uint8], np.float32]:
    """The nearest float8 (E4M3) codes of values over the largest of them / 448, and that."""
    codes = np.arange(127)
    exponent, mantissa = codes >> 3, codes & 7
    known = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    scale = np.float32(np.abs(value).max() / 448)
    magnitude = np.abs(value) / scale
    nearest = np.searchsorted((known[1:] + known[:-1]) / 2, magnitude)
    return (nearest + np.where(value < 0, 128, 0)).astype(np.uint8), scale


def write_tokenizer(folder: Path) -> None:
    """`vocab.json`, `merges.txt` and `tokenizer_config.json` as ComfyUI ships them: bytes as tokens, and a word."""
    from tokenizers import pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES)]
    (folder / "vocab.json").write_text(json.dumps({word: at for at, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n")
    added = {str(len(words) + at): {"content": name, "special": True} for at, name in enumerate(SPECIAL)}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))


def vocabulary_size() -> int:
    return 256 + len(MERGES) + len(SPECIAL)


class _Random:
    """Random tensors by name."""

    def __init__(self, seed: int) -> None:
        self.found: dict[str, NDArray[np.float32]] = {}
        self._rng = np.random.default_rng(seed)

    def normal(self, name: str, *shape: int, by: float, around: float = 0.0) -> None:
        self.found[name] = (around + by * self._rng.standard_normal(shape)).astype(np.float32)

    def matrix(self, name: str, *shape: int, bias: bool = False, gain: float = 1.0) -> None:
        self.normal(f"{name}.weight", *shape, by=gain * float(np.prod(shape[1:])) ** -0.5)
        if bias:
            self.normal(f"{name}.bias", shape[0], by=0.1)


def dit_tensors(sizes: TinyKrea2) -> dict[str, NDArray[np.float32]]:
    """The diffusion model under ComfyUI's names."""
    random = _Random(sizes.seed)
    width, text = sizes.width, sizes.text_width
    random.matrix("first", width, 64, bias=True)
    random.matrix("tmlp.0", width, sizes.time_dim, bias=True)
    random.matrix("tmlp.2", width, width, bias=True)
    random.matrix("tproj.1", 6 * width, width, bias=True, gain=0.5)
    for kind in ("layerwise_blocks", "refiner_blocks"):
        for number in range(2):
            name = f"txtfusion.{kind}.{number}"
            _block(random, name, text, sizes.text_ff_width, sizes.text_heads, sizes.text_heads, sizes.head_dim)
    random.normal("txtfusion.projector.weight", 1, sizes.taps, by=0.5)
    random.normal("txtmlp.0.scale", text, by=0.1)
    random.matrix("txtmlp.1", width, text, bias=True)
    random.matrix("txtmlp.3", width, width, bias=True)
    for number in range(sizes.layers):
        _block(random, f"blocks.{number}", width, sizes.ff_width, sizes.heads, sizes.kv_heads, sizes.head_dim)
        random.normal(f"blocks.{number}.mod.lin", 6 * width, by=0.3)
    random.normal("last.norm.scale", width, by=0.1)
    random.normal("last.modulation.lin", 2, width, by=0.3)
    random.matrix("last.linear", 64, width, bias=True)
    return random.found


def _block(random: _Random, name: str, width: int, ff: int, heads: int, kv_heads: int, head_dim: int) -> None:
    random.normal(f"{name}.prenorm.scale", width, by=0.1)
    random.normal(f"{name}.postnorm.scale", width, by=0.1)
    for part, rows in (("wq", heads), ("wk", kv_heads), ("wv", kv_heads), ("gate", heads)):
        random.matrix(f"{name}.attn.{part}", rows * head_dim, width)
    random.matrix(f"{name}.attn.wo", width, heads * head_dim)
    for part in ("qnorm", "knorm"):
        random.normal(f"{name}.attn.qknorm.{part}.scale", head_dim, by=0.1)
    random.matrix(f"{name}.mlp.gate", ff, width)
    random.matrix(f"{name}.mlp.up", ff, width)
    random.matrix(f"{name}.mlp.down", width, ff)


def encoder_tensors(sizes: TinyKrea2) -> dict[str, NDArray[np.float32]]:
    """The language part of the text encoder, without a prefix."""
    random = _Random(sizes.seed + 1)
    width, dim, ff = sizes.text_width, sizes.encoder_head_dim, 96
    q, kv = sizes.encoder_heads * dim, sizes.encoder_kv_heads * dim
    random.normal("embed_tokens.weight", vocabulary_size(), width, by=1.0)
    for number in range(3 * sizes.taps - 1):
        name = f"layers.{number}"
        for norm, size in (("input_layernorm", width), ("post_attention_layernorm", width),
                           ("self_attn.q_norm", dim), ("self_attn.k_norm", dim)):  # fmt: skip
            random.normal(f"{name}.{norm}.weight", size, by=0.1, around=1.0)
        for part, rows, columns in (
            ("self_attn.q_proj", q, width), ("self_attn.k_proj", kv, width), ("self_attn.v_proj", kv, width),
            ("self_attn.o_proj", width, q), ("mlp.gate_proj", ff, width), ("mlp.up_proj", ff, width),
            ("mlp.down_proj", width, ff),
        ):  # fmt: skip
            random.matrix(f"{name}.{part}", rows, columns)
    return random.found


def vae_tensors(sizes: TinyKrea2) -> dict[str, NDArray[np.float32]]:
    """The decoder of the VAE under Wan's names."""
    random = _Random(sizes.seed + 2)
    base = sizes.vae_channels

    def residual(name: str, into: int, out: int) -> None:
        random.normal(f"{name}.residual.0.gamma", into, 1, 1, 1, by=0.1, around=1.0)
        random.matrix(f"{name}.residual.2", out, into, 3, 3, 3, bias=True, gain=1.7)
        random.normal(f"{name}.residual.3.gamma", out, 1, 1, 1, by=0.1, around=1.0)
        random.matrix(f"{name}.residual.6", out, out, 3, 3, 3, bias=True, gain=1.7)
        if into != out:
            random.matrix(f"{name}.shortcut", out, into, 1, 1, 1, bias=True)

    random.matrix("conv2", 16, 16, 1, 1, 1, bias=True)
    random.matrix("decoder.conv1", 4 * base, 16, 3, 3, 3, bias=True, gain=1.7)
    residual("decoder.middle.0", 4 * base, 4 * base)
    random.normal("decoder.middle.1.norm.gamma", 4 * base, 1, 1, by=0.1, around=1.0)
    random.matrix("decoder.middle.1.to_qkv", 12 * base, 4 * base, 1, 1, bias=True)
    random.matrix("decoder.middle.1.proj", 4 * base, 4 * base, 1, 1, bias=True)
    residual("decoder.middle.2", 4 * base, 4 * base)
    into = 4 * base
    for at, (out, after) in enumerate(((4 * base, 2 * base), (4 * base, 2 * base), (2 * base, base), (base, 0))):
        for each in range(3):
            residual(f"decoder.upsamples.{4 * at + each}", into, out)
            into = out
        if after:
            random.matrix(f"decoder.upsamples.{4 * at + 3}.resample.1", after, out, 3, 3, bias=True)
            into = after
    random.normal("decoder.head.0.gamma", base, 1, 1, 1, by=0.1, around=1.0)
    random.matrix("decoder.head.2", 3, base, 3, 3, 3, bias=True, gain=0.6)
    return random.found
