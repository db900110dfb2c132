"""Tiny Kyutai speech-to-text checkpoints with random weights, of the structure of the published ones."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_laya import stored

WORDS = [
    "the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "home", "to", "sleep",
    "while", "we", "all", "went", "out", "for", "some", "tea", "in", "the", "rain",
]  # fmt: skip
LM: dict[str, Any] = {
    "card": 16,
    "n_q": 4,
    "dep_q": 0,
    "delays": [0] * 5,
    "dim": 64,
    "text_card": 300,
    "existing_text_padding_id": 3,
    "num_heads": 2,
    "num_layers": 2,
    "hidden_scale": 4.5,
    "causal": True,
    "layer_scale": None,
    "context": 12,
    "max_period": 100000.0,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_dim": 32,
    "depformer_num_heads": 2,
    "depformer_num_layers": 1,
    "depformer_layer_scale": None,
    "depformer_multi_linear": True,
    "depformer_context": 8,
    "depformer_max_period": 10000.0,
    "depformer_gating": "silu",
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
    "extra_heads_num_heads": 4,
    "extra_heads_dim": 6,
    "lm_gen_config": {"temp": 0.0, "temp_text": 0.0, "top_k": 250, "top_k_text": 50},
    "stt_config": {"audio_delay_seconds": 0.5, "audio_silence_prefix_seconds": 0.0},
    "model_type": "stt",
    "model_id": {"sig": "tiny", "epoch": 1},
    "moshi_name": "model.safetensors",
    "mimi_name": "mimi.safetensors",
    "mimi_config_name": "mimi.json",
    "tokenizer_name": "tokenizer.model",
}
MIMI: dict[str, Any] = {
    "sample_rate": 24000,
    "channels": 1,
    "frame_rate": 12.5,
    "seanet": {
        "channels": 1,
        "dimension": 32,
        "causal": True,
        "n_filters": 4,
        "n_residual_layers": 1,
        "activation": "ELU",
        "compress": 2,
        "dilation_base": 2,
        "disable_norm_outer_blocks": 0,
        "kernel_size": 7,
        "residual_kernel_size": 3,
        "last_kernel_size": 3,
        "norm": "none",
        "pad_mode": "constant",
        "ratios": [8, 6, 5, 4],
        "true_skip": True,
    },
    "quantizer": {"dimension": 16, "n_q": 6, "bins": 16, "input_dimension": 32, "output_dimension": 32},
    "transformer": {
        "d_model": 32,
        "num_heads": 2,
        "num_layers": 2,
        "causal": True,
        "layer_scale": 0.01,
        "context": 6,
        "conv_layout": True,
        "max_period": 10000,
        "gating": "none",
        "norm": "layer_norm",
        "positional_embedding": "rope",
        "dim_feedforward": 64,
        "input_dimension": 32,
        "output_dimensions": [32],
    },
}


def tiny_stt_directory(
    path: Path, *, lm: Mapping[str, Any] | None = None, dtype: str = "F32", seed: int = 1, parts: bool = True
) -> Path:
    """A checkpoint in `path`, its language model's weights of type `dtype`. Keys of `lm` replace those of `LM`; None
    removes one. Without `parts` there is the configuration alone, for a caller that writes large tensors itself.
    """
    config: dict[str, Any] = {
        key: value for key, value in {**LM, **(lm or {})}.items() if value is not None or key == "layer_scale"
    }
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    (path / "mimi.json").write_text(json.dumps(MIMI))
    write_tokenizer(path / "tokenizer.model", config["text_card"])
    if parts:
        rng = np.random.default_rng(seed)
        tensors = {name: stored(value, dtype) for name, value in lm_tensors(config, rng).items()}
        (path / "model.safetensors").write_bytes(safetensors_bytes(tensors))
        (path / "mimi.safetensors").write_bytes(safetensors_bytes(mimi_tensors(MIMI, rng)))
    return path


def write_tokenizer(path: Path, size: int) -> None:
    """A SentencePiece model with byte pieces, ids 0 `<unk>`, 1 `<s>`, 2 `</s>`, 3 `<pad>` as Kyutai's have them."""
    import sentencepiece

    rng = np.random.default_rng(0)
    text = (" ".join(rng.choice(WORDS, 12)) for _ in range(200))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=text,
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=True,
        byte_fallback=True,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())


def lm_tensors(config: Mapping[str, Any], rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Weights of a scale at which the next token depends on what is heard, pads and ends of padding among them."""
    d, hidden = config["dim"], (2 * int(config["hidden_scale"] * config["dim"])) // 3
    found: dict[str, NDArray[np.float32]] = {}

    def matrix(name: str, rows: int, columns: int, by: float) -> None:
        found[name] = (rng.standard_normal((rows, columns)) * by).astype(np.float32)

    def alpha(name: str) -> None:
        found[name] = (1 + 0.1 * rng.standard_normal((1, 1, d))).astype(np.float32)

    for level in range(config["n_q"]):
        matrix(f"emb.{level}.weight", config["card"] + 1, d, 1.0)
    matrix("text_emb.weight", config["text_card"] + 1, d, 1.0)
    for i in range(config["num_layers"]):
        layer = f"transformer.layers.{i}"
        matrix(f"{layer}.self_attn.in_proj_weight", 3 * d, d, 1.2 / d**0.5)
        matrix(f"{layer}.self_attn.out_proj.weight", d, d, 1.2 / d**0.5)
        alpha(f"{layer}.norm1.alpha")
        alpha(f"{layer}.norm2.alpha")
        matrix(f"{layer}.gating.linear_in.weight", 2 * hidden, d, 1.2 / d**0.5)
        matrix(f"{layer}.gating.linear_out.weight", d, hidden, 1.2 / hidden**0.5)
    alpha("out_norm.alpha")
    matrix("text_linear.weight", config["text_card"], d, 1 / d**0.5)
    # of bytes and control tokens few are said, of pads and ends of padding many
    by = np.ones((config["text_card"], 1), np.float32)
    by[:260], by[[0, 3]] = 0.4, 3
    found["text_linear.weight"] *= by
    for head in range(config.get("extra_heads_num_heads", 0)):
        matrix(f"extra_heads.{head}.weight", config["extra_heads_dim"], d, 1 / d**0.5)
    return found


def mimi_tensors(config: Mapping[str, Any], rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """The encoder's half of a codec, and tensors of the decoder's half that a file has besides."""
    seanet, transformer, quantizer = config["seanet"], config["transformer"], config["quantizer"]
    found: dict[str, NDArray[np.float32]] = {}

    def conv(name: str, out: int, inner: int, taps: int, *, bias: bool = True) -> None:
        found[f"{name}.weight"] = (rng.standard_normal((out, inner, taps)) * (inner * taps) ** -0.5).astype(np.float32)
        if bias:
            found[f"{name}.bias"] = (0.1 * rng.standard_normal(out)).astype(np.float32)

    def vector(name: str, size: int, mean: float, by: float) -> None:
        found[name] = (mean + by * rng.standard_normal(size)).astype(np.float32)

    channels = seanet["n_filters"]
    conv("encoder.model.0.conv.conv", channels, 1, seanet["kernel_size"])
    for stage, ratio in enumerate(reversed(seanet["ratios"])):
        at = 1 + 3 * stage
        conv(f"encoder.model.{at}.block.1.conv.conv", channels // 2, channels, seanet["residual_kernel_size"])
        conv(f"encoder.model.{at}.block.3.conv.conv", channels, channels // 2, 1)
        conv(f"encoder.model.{at + 2}.conv.conv", 2 * channels, channels, 2 * ratio)
        channels *= 2
    d = seanet["dimension"]
    conv(f"encoder.model.{2 + 3 * len(seanet['ratios'])}.conv.conv", d, channels, seanet["last_kernel_size"])
    for i in range(transformer["num_layers"]):
        layer = f"encoder_transformer.transformer.layers.{i}"
        for name, rows, columns in (
            ("self_attn.in_proj_weight", 3 * d, d),
            ("self_attn.out_proj.weight", d, d),
            ("linear1.weight", transformer["dim_feedforward"], d),
            ("linear2.weight", d, transformer["dim_feedforward"]),
        ):
            found[f"{layer}.{name}"] = (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)
        for norm in ("norm1", "norm2"):
            vector(f"{layer}.{norm}.weight", d, 1.0, 0.1)
            vector(f"{layer}.{norm}.bias", d, 0.0, 0.1)
        for each in ("layer_scale_1.scale", "layer_scale_2.scale"):
            vector(f"{layer}.{each}", d, 0.3, 0.1)
    conv("downsample.conv.conv.conv", d, d, 4, bias=False)
    found["upsample.convtr.convtr.convtr.weight"] = np.zeros((d, 1, 4), np.float32)
    inner = quantizer["dimension"]
    for part, levels in (("rvq_first", 1), ("rvq_rest", quantizer["n_q"] - 1)):
        conv(f"quantizer.{part}.input_proj", inner, d, 1, bias=False)
        conv(f"quantizer.{part}.output_proj", d, inner, 1, bias=False)
        for level in range(levels):
            name = f"quantizer.{part}.vq.layers.{level}._codebook"
            usage = rng.uniform(0.5, 2, quantizer["bins"]).astype(np.float32)
            entries = rng.standard_normal((quantizer["bins"], inner)) * 0.3 * 0.7**level
            found[f"{name}._initialized"] = np.ones(1, np.float32)
            found[f"{name}.cluster_usage"] = usage
            found[f"{name}.embedding_sum"] = (entries * usage[:, None]).astype(np.float32)
    return found
