"""What some families' tiny checkpoints have beside, or instead of, the tensors of a dense decoder.

Tensors are float32 by their names in a GGUF; matrices are (out, in).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def mistral3_keys(original_context: int) -> dict[str, Any]:
    """Ministral 3's scaling past a context of so many positions: YaRN without magnitude, growing queries."""
    return {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 16.0,
        "rope.scaling.original_context_length": original_context,
        "rope.scaling.yarn_beta_fast": 32.0,
        "rope.scaling.yarn_beta_slow": 1.0,
        "rope.scaling.yarn_log_multiplier": 1.0,
        "attention.temperature_scale": 0.1,
    }


def attention_biases(random: np.random.Generator, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A bias for each projection to queries, keys and values."""
    weights = [name for name in tensors if name.split(".")[-2] in ("attn_q", "attn_k", "attn_v")]
    return {
        name.replace(".weight", ".bias"): random.standard_normal(len(tensors[name])).astype(np.float32)
        for name in weights
    }


def fused_attention(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same with queries, keys and values, weights and biases, in one tensor each, where a layer has all three."""
    result = dict(tensors)
    for name in tensors:
        parts = [name.replace(".attn_q.", f".attn_{part}.") for part in "qkv"]
        if ".attn_q." in name and all(part in tensors for part in parts):
            result[name.replace(".attn_q.", ".attn_qkv.")] = np.concatenate([result.pop(part) for part in parts])
    return result


def with_experts(random: np.random.Generator, tensors: dict[str, np.ndarray], experts: int) -> dict[str, np.ndarray]:
    """The same with a router and a stack (experts, out, in) in the place of each feed-forward matrix."""
    result: dict[str, np.ndarray] = {}
    for name, tensor in tensors.items():
        role = name.split(".")[2] if name.startswith("blk.") else ""
        if role not in ("ffn_gate", "ffn_up", "ffn_down"):
            result[name] = tensor
            continue
        if role == "ffn_gate":
            router = random.standard_normal((experts, tensor.shape[1])) * 2 / math.sqrt(tensor.shape[1])
            result[name.replace(role, "ffn_gate_inp")] = router.astype(np.float32)
        stack = random.standard_normal((experts, *tensor.shape)) * tensor.std()
        result[name.replace(role, f"{role}_exps")] = stack.astype(np.float32)
    return result
