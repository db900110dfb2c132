"""Encoders in GGUF files: `bert` and `nomic-bert-moe`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from golem_host.api import ModelFileError
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import Gguf, GgufError, open_gguf
from golem_host.weights.quantization import quantization_name
from golem_host_embed.checkpoint import (
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_WIDTH,
    Checkpoint,
    Gelu,
    Hparams,
    Pooling,
)
from golem_host_embed.tokens import Frame, TextTokens

log = logging.getLogger("golem_host.embed")

ARCHITECTURES = ("bert", "nomic-bert-moe")

_POOLING = {1: Pooling.MEAN, 2: Pooling.CLS, 3: Pooling.LAST, 4: Pooling.CLS}
"""`<arch>.pooling_type` (enum llama_pooling_type); 4 is a cross-encoder's, whose head reads the first row."""
_RANK = 4


def family(path: Path) -> str | None:
    """The encoder family of a GGUF file, served or not; None for other files."""
    if path.suffix.lower() != ".gguf":
        return None
    try:
        with open_gguf(path) as gguf:
            architecture = gguf.architecture
            causal = gguf.metadata.get(f"{architecture}.attention.causal", True)
    except ModelFileError:
        return None
    return architecture if architecture in ARCHITECTURES or causal is False else None


def open_file(path: Path) -> Checkpoint:
    """Open a GGUF encoder. Raises `GgufError` for one that cannot be served."""
    gguf = open_gguf(path)
    try:
        return _checkpoint(gguf)
    except BaseException:
        gguf.close()
        raise


def _checkpoint(gguf: Gguf) -> Checkpoint:
    arch = gguf.architecture
    if arch not in ARCHITECTURES:
        raise GgufError(
            gguf.path, f"models of family '{arch}' are not served; encoders served: {', '.join(ARCHITECTURES)}"
        )
    if gguf.boolean(f"{arch}.attention.causal", False):
        raise GgufError(gguf.path, f"'{arch}.attention.causal' is true: this variant of {arch} is not served")
    pooling, classifier = _pooling(gguf)
    context = _positive(gguf, "context_length", MAX_POSITIONS)
    return Checkpoint(
        path=gguf.path,
        architecture=arch,
        hparams=_hparams(gguf),
        tensors=gguf.tensors,
        pooling=pooling,
        classifier=classifier,
        context_length=context,
        quantization=quantization_name(gguf),
        size_bytes=gguf.size_bytes,
        modified=max(part.stat().st_mtime for part in gguf.paths),
        tokens=lambda: _tokens(gguf),
        close=gguf.close,
        metadata=gguf.metadata,
    )


def _hparams(gguf: Gguf) -> Hparams:
    arch = gguf.architecture
    eps = gguf.f32(f"{arch}.attention.layer_norm_epsilon")
    if not 0 < eps < 1:
        raise GgufError(gguf.path, f"'{arch}.attention.layer_norm_epsilon' is {eps}; a number from 0 to 1 is expected")
    sizes = Hparams(
        layers=_positive(gguf, "block_count", MAX_LAYERS),
        width=_positive(gguf, "embedding_length", MAX_WIDTH),
        ff_width=_positive(gguf, "feed_forward_length", MAX_WIDTH),
        heads=_positive(gguf, "attention.head_count", 4096),
        positions=_positive(gguf, "context_length", MAX_POSITIONS) if arch == "bert" else 0,
        norm_eps=eps,
        gelu=Gelu.TANH,
    )
    if sizes.width % sizes.heads:
        raise GgufError(
            gguf.path,
            f"'{arch}.attention.head_count': rows of {sizes.width} values do not divide into {sizes.heads} heads",
        )
    if arch == "bert":
        return sizes
    base = gguf.f32(f"{arch}.rope.freq_base", 10000.0)
    if not 1 < base < 1e12:
        raise GgufError(gguf.path, f"'{arch}.rope.freq_base' is {base}, which is out of range")
    experts = _positive(gguf, "expert_count", MAX_WIDTH)
    return replace(sizes, rope_base=base, experts=experts, experts_used=_positive(gguf, "expert_used_count", experts))


def _positive(gguf: Gguf, name: str, limit: int) -> int:
    key = f"{gguf.architecture}.{name}"
    value = gguf.u32(key)
    if not 0 < value <= limit:
        raise GgufError(gguf.path, f"'{key}' is {value}; a number from 1 to {limit} is expected")
    return value


def _pooling(gguf: Gguf) -> tuple[Pooling, bool]:
    """How a text's vector is made, and whether the file is a cross-encoder."""
    key = f"{gguf.architecture}.pooling_type"
    number = gguf.u32(key, None)
    if number is None:
        log.warning("%s does not say how its rows are pooled; their mean is taken", gguf.path.name)
        return Pooling.MEAN, False
    if number not in _POOLING:
        raise GgufError(
            gguf.path, f"'{key}' is {number}; served are 1 (mean), 2 (first row), 3 (last row) and 4 (reranking)"
        )
    return _POOLING[number], number == _RANK


def _tokens(gguf: Gguf) -> TextTokens:
    tokenizer = tokenizer_from_gguf(gguf)
    vocab = tokenizer.vocab
    table = gguf.tensors.get("token_embd.weight")
    if table is None or len(vocab) > table.shape[0]:
        rows = 0 if table is None else table.shape[0]
        raise GgufError(gguf.path, f"the tokenizer has {len(vocab)} tokens, 'token_embd.weight' {rows} rows")
    types = gguf.tensors.get("token_types.weight")
    frame = Frame(
        before=vocab.opening,
        after=vocab.closing,
        between=vocab.joining,
        second=int(types is not None and len(types.shape) == 2 and types.shape[0] > 1),
    )

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [tokenizer.encode(text, add_special=False) for text in texts]

    encode(["a text"])  # builds the tables now rather than for the first request
    return TextTokens(encode, frame, len(vocab))
