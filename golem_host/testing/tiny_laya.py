"""Tiny laya checkpoints with random weights, of the structure of the published ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.testing.safetensors import safetensors_bytes

SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
ENCODER: dict[str, Any] = {
    "model_type": "modernbert",
    "vocab_size": 261,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "local_attention": 8,
    "global_attn_every_n_layers": 3,
    "max_position_embeddings": 512,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "norm_eps": 1e-5,
    "pad_token_id": 3,
    "cls_token_id": 1,
    "bos_token_id": 1,
    "sep_token_id": 2,
    "eos_token_id": 2,
}
CONFIG: dict[str, Any] = {
    "encoder": "tiny",
    "head_layers": 2,
    "max_len": 256,
    "head_max_len": 160,
    "act_costs": {"ask": 0.1},
    "amp_dtype": "bf16",
    "temperature": [1.6, 1.25, 1.98],
    "temperature_by_options": {"choice:3-5": 1.76, "choice:11+": 0.1006},
}


def tiny_laya_directory(
    path: Path,
    *,
    encoder: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    dtype: str = "F32",
    seed: int = 1,
) -> Path:
    """A checkpoint in `path`: bytes as tokens, weights of type `dtype`. Keys of `encoder` and `config` replace those of
    `ENCODER` and `CONFIG`; None removes one.
    """
    encoder_config = _changed(ENCODER, encoder)
    laya_config = _changed(CONFIG, config)
    (path / "encoder").mkdir(parents=True)
    (path / "tokenizer").mkdir()
    (path / "encoder" / "config.json").write_text(json.dumps(encoder_config))
    (path / "rl_agent_config.json").write_text(json.dumps(laya_config))
    write_tokenizer(path / "tokenizer")
    tensors = random_tensors(encoder_config, laya_config, seed)
    raw = {name: stored(value, dtype) for name, value in tensors.items()}
    (path / "model.safetensors").write_bytes(safetensors_bytes(raw))
    return path


def _changed(base: Mapping[str, Any], changes: Mapping[str, Any] | None) -> dict[str, Any]:
    merged = {**base, **(changes or {})}
    return {key: value for key, value in merged.items() if value is not None}


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of the 256 bytes, after the special tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    names = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(BPE({name: at for at, name in enumerate(names)}, [], unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[misc]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[misc]
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    words = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **words, "model_max_length": 8192})
    )


def random_tensors(encoder: Mapping[str, Any], config: Mapping[str, Any], seed: int) -> dict[str, NDArray[np.float32]]:
    """Weights of a scale at which answers are not flat, named as a checkpoint names them."""
    rng = np.random.default_rng(seed)
    d, f = encoder["hidden_size"], encoder["intermediate_size"]
    found: dict[str, NDArray[np.float32]] = {}

    def matrix(name: str, rows: int, columns: int, *, bias: bool = False, scale: float | None = None) -> None:
        by = 1.5 / columns**0.5 if scale is None else scale
        found[f"{name}.weight"] = (rng.standard_normal((rows, columns)) * by).astype(np.float32)
        if bias:
            found[f"{name}.bias"] = (0.1 * rng.standard_normal(rows)).astype(np.float32)

    def norm(name: str, *, bias: bool = False) -> None:
        found[f"{name}.weight"] = (1 + 0.1 * rng.standard_normal(d)).astype(np.float32)
        if bias:
            found[f"{name}.bias"] = (0.1 * rng.standard_normal(d)).astype(np.float32)

    matrix("encoder.embeddings.tok_embeddings", encoder["vocab_size"], d, scale=1.0)
    norm("encoder.embeddings.norm")
    for i in range(encoder["num_hidden_layers"]):
        layer = f"encoder.layers.{i}"
        if i:
            norm(f"{layer}.attn_norm")
        matrix(f"{layer}.attn.Wqkv", 3 * d, d)
        matrix(f"{layer}.attn.Wo", d, d)
        norm(f"{layer}.mlp_norm")
        matrix(f"{layer}.mlp.Wi", 2 * f, d)
        matrix(f"{layer}.mlp.Wo", d, f)
    norm("encoder.final_norm")
    for i in range(config["head_layers"]):
        layer = f"head.layers.{i}"
        matrix(f"{layer}.self_attn.in_proj", 3 * d, d, bias=True)
        for part in ("weight", "bias"):
            found[f"{layer}.self_attn.in_proj_{part}"] = found.pop(f"{layer}.self_attn.in_proj.{part}")
        matrix(f"{layer}.self_attn.out_proj", d, d, bias=True)
        matrix(f"{layer}.linear1", 4 * d, d, bias=True)
        matrix(f"{layer}.linear2", d, 4 * d, bias=True)
        norm(f"{layer}.norm1", bias=True)
        norm(f"{layer}.norm2", bias=True)
    matrix("type_emb", 3, d, scale=1.0)
    norm("scorer.0", bias=True)
    matrix("scorer.1", d, d, bias=True)
    matrix("scorer.3", 1, d, bias=True)
    matrix("act_head.0", 256, d + 4, bias=True)
    matrix("act_head.2", len(config.get("act_costs", {})) + 1, 256, bias=True)
    found["temperature"] = np.ones(3, np.float32)
    return found


def stored(value: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Values as a file stores them: F32, F16, or the words of BF16."""
    if dtype == "BF16":
        words = value.view(np.uint32)
        return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)
    return value if dtype == "F32" else value.astype(np.float16)
