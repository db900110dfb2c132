"""Tiny checkpoints whose weights are folded with a Walsh-Hadamard transform, as Bonsai 2's: the model is the same. No
torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_ROLES = ("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_ROLES += ("ssm_out", "output")


def fold(
    tensors: dict[str, np.ndarray], *, block: int, heads: tuple[int, int] = (2, 2), grouped: bool = True
) -> dict[str, Any]:
    """Fold the tensors of a qwen35 and return the keys that say so; for `change` of `tiny_gguf`.

    Signs are random; blocks of `block` values. `grouped` keeps the columns of `ssm_out`, which are `heads` (value heads
    of each key head, key heads) of them, beside those of their key head.
    """
    random = np.random.default_rng(0)
    signs: dict[int, np.ndarray] = {}

    def folded(tensor: np.ndarray) -> np.ndarray:
        width = tensor.shape[1]
        if width not in signs:
            signs[width] = random.choice([-1.0, 1.0], width)
        blocks = (tensor * signs[width]).reshape(len(tensor), -1, block)
        return (blocks @ hadamard(block)).reshape(tensor.shape).astype(np.float32)

    names = [name for name in tensors if name.removesuffix(".weight").split(".")[-1] in _ROLES]
    for name in names:
        tensor = tensors[name]
        if grouped and name.endswith(".ssm_out.weight"):
            tensor = tensor.reshape(len(tensor), *heads, -1).swapaxes(1, 2).reshape(tensor.shape)
        tensors[name] = folded(tensor)
    tensors["token_embd.weight"] = folded(tensors["token_embd.weight"])
    keys = {
        "version": 1,
        "block_size": block,
        "transform": "normalized-sylvester-walsh-hadamard",
        "axis": "input-last-dimension",
        "sign_mode": "explicit",
        "sign_widths": list(signs),
        "sign_values": np.concatenate(list(signs.values())).astype(int).tolist(),
        "weight_names": names,
        "inverse_weight_names": ["token_embd.weight"],
        "gdn_v_grouped": grouped,
    }
    return {f"prism.hadamard.{key}": value for key, value in keys.items()}


def hadamard(size: int) -> np.ndarray:
    """The orthogonal Sylvester matrix (size, size); `size` is a power of two."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(size)
