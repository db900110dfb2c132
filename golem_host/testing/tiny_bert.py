"""Tiny random BERT of true structure, as a GGUF file and as a sentence-transformers directory with the same weights.
llama.cpp and transformers load them too.

Needs the `gguf` package and numpy (extra `test`); no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from golem_host.testing.encoder_weights import (
    ENDINGS,
    LETTERS,
    MARKS,
    WORDS,
    EncoderWeights,
    Tensors,
    encoder_keys,
    encoder_tokenizer_keys,
)
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny import write_gguf

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_HF_NAMES = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
    "cls": "pooler.dense",
    "cls.output": "classifier",
}


def word_pieces() -> list[str]:
    """A WordPiece vocabulary as BERT writes it: special tokens, then pieces, continuations with `##`."""
    inner = [f"##{piece}" for piece in (*LETTERS, *ENDINGS)]
    return [*SPECIALS, *MARKS, *LETTERS, *WORDS, *inner]


def bert_tensors(*, seed: int, layers: int, width: int, ff_width: int, context: int, classifier: bool) -> Tensors:
    """Float32 tensors by GGUF name; matrices are (out, in)."""
    random = EncoderWeights(seed, width)
    tensors = {
        "token_embd.weight": random.matrix(len(word_pieces()), width),
        "position_embd.weight": random.matrix(context, width, 0.5),
        "token_types.weight": random.matrix(2, width, 0.5),
        **random.norm("token_embd_norm"),
    }
    for layer in range(layers):
        name = f"blk.{layer}"
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors |= random.linear(f"{name}.{part}", width, width)
        tensors |= random.norm(f"{name}.attn_output_norm")
        tensors |= random.linear(f"{name}.ffn_up", ff_width, width)
        tensors |= random.linear(f"{name}.ffn_down", width, ff_width)
        tensors |= random.norm(f"{name}.layer_output_norm")
    if classifier:
        tensors |= random.linear("cls", width, width)
        tensors |= random.linear("cls.output", 1, width)
    return tensors


def tiny_bert_gguf(
    path: str | Path,
    *,
    seed: int = 0,
    layers: int = 2,
    width: int = 64,
    ff_width: int = 128,
    heads: int = 4,
    context: int = 128,
    pooling: int | None = 1,
    quantization: str = "F32",
    types: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """A `bert` file; `pooling` as llama.cpp numbers it (4: a cross-encoder with its head). `metadata` adds or replaces
    keys (None removes one). See `tiny_gguf` for `quantization` and `types`.
    """
    tensors = bert_tensors(
        seed=seed, layers=layers, width=width, ff_width=ff_width, context=context, classifier=pooling == 4
    )
    keys = encoder_keys("bert", layers, width, ff_width, heads, context, pooling, 1e-12)
    pieces = word_pieces()
    keys |= encoder_tokenizer_keys(
        model="bert",
        pre="default",
        tokens=[
            piece if piece in SPECIALS else piece[2:] if piece[:2] == "##" else "\u2581" + piece for piece in pieces
        ],
        token_type=[3 if piece in SPECIALS else 1 for piece in pieces],
        token_type_count=2,
        unknown_token_id=1,
        bos_token_id=2,
        eos_token_id=3,
        seperator_token_id=3,
        padding_token_id=0,
        mask_token_id=4,
        add_bos_token=True,
        add_eos_token=True,
        add_sep_token=False,
    )
    random = np.random.default_rng(seed)
    small = {"position_embd": "F32", "token_types": "F32", **(types or {})}
    return write_gguf(Path(path), "bert", keys | dict(metadata or {}), tensors, quantization, small, random=random)


def tiny_bert_directory(
    folder: str | Path,
    *,
    seed: int = 0,
    layers: int = 2,
    width: int = 64,
    ff_width: int = 128,
    heads: int = 4,
    context: int = 128,
    max_seq_length: int | None = None,
    pooling: str = "mean",
    classifier: bool = False,
    dtype: type = np.float32,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """The same model as a directory: with sentence-transformers' modules, or with `classifier` a cross-encoder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = bert_tensors(
        seed=seed, layers=layers, width=width, ff_width=ff_width, context=context, classifier=classifier
    )
    named = {_hf_name(name, "bert." if classifier else ""): value.astype(dtype) for name, value in tensors.items()}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(named, {"format": "pt"}))
    settings = {
        "architectures": ["BertForSequenceClassification" if classifier else "BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": ff_width,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": context,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": len(word_pieces()),
        **({"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}} if classifier else {}),
    }
    _write(folder / "config.json", settings | dict(config or {}))
    _write(folder / "tokenizer.json", _tokenizer_json())
    _write(folder / "tokenizer_config.json", {"model_max_length": context, "tokenizer_class": "BertTokenizer"})
    if classifier:
        return folder
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": max_seq_length, "do_lower_case": False})
    modes = {"mean": "mean_tokens", "cls": "cls_token", "lasttoken": "lasttoken", "max": "max_tokens"}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    flags = {f"pooling_mode_{flag}": mode == pooling for mode, flag in modes.items()}
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **flags})
    return folder


def _hf_name(name: str, prefix: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem.startswith("blk."):
        _, layer, part = stem.split(".")
        return f"{prefix}encoder.layer.{layer}.{_HF_NAMES[part]}.{kind}"
    return f"{'' if stem == 'cls.output' else prefix}{_HF_NAMES[stem]}.{kind}"


def _tokenizer_json() -> dict[str, Any]:
    """`tokenizer.json` of an uncased BERT; its truncation and padding, as checkpoints have them, must not count."""
    specials = [
        {
            "id": id, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True,
        }
        for id, token in enumerate(SPECIALS)
    ]  # fmt: skip

    def token(name: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single = [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)]
    return {
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": specials,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, text("B", 1), token("[SEP]", 1)],
            "special_tokens": {
                name: {"id": name, "ids": [SPECIALS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: id for id, piece in enumerate(word_pieces())},
        },
    }  # fmt: skip


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1))
