"""The tensors of a transformers checkpoint under the names that GGUF files give them."""

from __future__ import annotations

import re

from golem_host.api import ModelFileError
from golem_host.weights.safetensors import Safetensors
from golem_host.weights.tensor import Tensor

_LAYER = re.compile(r"encoder\.layer\.(0|[1-9]\d{0,3})\.(.+)\.(weight|bias)")
_IN_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_OUTSIDE = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
_HEAD = {
    "pooler.dense.weight": "cls.weight",
    "pooler.dense.bias": "cls.bias",
    "classifier.weight": "cls.output.weight",
    "classifier.bias": "cls.output.bias",
}
_NOT_USED = re.compile(r"embeddings\.position_ids|pooler\.dense\..*|cls\..*")
"""Buffers, and heads of tasks other than the one served."""


def gguf_names(weights: Safetensors, *, classifier: bool) -> dict[str, Tensor]:
    """The tensors of a BERT checkpoint by GGUF name; with `classifier` those of its head too.

    Raises `ModelFileError` for a tensor this family does not know, one under two names, and one whose type is not read.
    """
    found: dict[str, Tensor] = {}
    for name in (*weights.tensors, *weights.unread):
        plain = _plain(name)
        target = _OUTSIDE.get(plain) or _in_layer(plain) or (_HEAD.get(plain) if classifier else None)
        if target is None:
            if _NOT_USED.fullmatch(plain):
                continue
            raise ModelFileError(weights.path, f"tensor '{name}' belongs to a variant of bert that is not served")
        if name in weights.unread:
            raise ModelFileError(weights.path, f"tensor '{name}' is of type {weights.unread[name]}, which is not read")
        if target in found:
            raise ModelFileError(weights.path, f"tensor '{name}' is there under another name as well")
        found[target] = weights.tensors[name]
    return found


def _plain(name: str) -> str:
    """The name without the model's prefix, and as PyTorch says it rather than TensorFlow."""
    name = name.removeprefix("bert.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{old}"):
            name = name.removesuffix(old) + new
    return name


def _in_layer(name: str) -> str | None:
    match = _LAYER.fullmatch(name)
    if match is None or match[2] not in _IN_LAYER:
        return None
    return f"blk.{match[1]}.{_IN_LAYER[match[2]]}.{match[3]}"
