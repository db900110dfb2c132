"""What qwen35 and qwen35moe files become in transformers: `transformers_layers.py` asks for it.

Undone is what the converter changed: heads of values go back beside their key head, norm weights lose the 1 that was
added, rates become logarithms again. Blocks that predict further tokens are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import (
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
)

CLASSES = {
    "qwen35": (Qwen3_5TextConfig, Qwen3_5ForCausalLM),
    "qwen35moe": (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM),
}
Arrays = dict[str, np.ndarray]
_NAMES = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}


def settings(keys: dict[str, Any]) -> dict[str, Any]:
    """The configuration class's arguments beside those of every family."""
    layers, interval = _layers(keys), keys["full_attention_interval"]
    recurrent = keys.get("attention.recurrent_layers") or [(layer + 1) % interval for layer in range(layers)]
    result = {
        "num_hidden_layers": layers,
        "layer_types": ["linear_attention" if each else "full_attention" for each in recurrent[:layers]],
        "linear_conv_kernel_dim": keys["ssm.conv_kernel"],
        "linear_key_head_dim": keys["ssm.state_size"],
        "linear_value_head_dim": keys["ssm.state_size"],
        "linear_num_key_heads": keys["ssm.group_count"],
        "linear_num_value_heads": keys["ssm.time_step_rank"],
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": keys["rope.freq_base"],
            "partial_rotary_factor": keys["rope.dimension_count"] / keys["attention.key_length"],
            "mrope_section": keys["rope.dimension_sections"][:3],
        },
    }
    if "expert_count" in keys:
        result |= {
            "num_experts": keys["expert_count"],
            "num_experts_per_tok": keys["expert_used_count"],
            "moe_intermediate_size": keys["expert_feed_forward_length"],
            "shared_expert_intermediate_size": keys["expert_shared_feed_forward_length"],
            "experts_implementation": "eager",
        }
    return result


def state(keys: dict[str, Any], tensors: Arrays) -> Arrays:
    """Parameters by their names in transformers, without the head that a tied file lacks."""
    known = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    result: Arrays = {}
    for name, tensor in tensors.items():
        if not name.startswith("blk."):
            result[known[name] + ".weight"] = tensor - 1 if name == "output_norm" else tensor
            continue
        _, layer, role = name.split(".", 2)
        if int(layer) < _layers(keys):
            at = f"model.layers.{layer}."
            result |= {at + where: value for where, value in _block(keys, tensors, f"blk.{layer}.", role).items()}
    return result


def _layers(keys: dict[str, Any]) -> int:
    return keys["block_count"] - keys.get("nextn_predict_layers", 0)


def _block(keys: dict[str, Any], tensors: Arrays, block: str, role: str) -> Arrays:
    tensor, dim = tensors[block + role], keys["ssm.state_size"]
    key_heads, value_heads = keys["ssm.group_count"], keys["ssm.time_step_rank"]
    order = np.arange(value_heads).reshape(-1, key_heads).T.ravel()  # of GGUF's heads, as transformers has them
    values = (order[:, None] * dim + np.arange(dim)).ravel()
    mixed = np.concatenate([np.arange(2 * key_heads * dim), 2 * key_heads * dim + values])
    if role in ("attn_qkv", "ssm_conv1d"):
        tensor = tensor[mixed]
    elif role == "attn_gate":
        tensor = tensor[values]
    elif role == "ssm_out":
        tensor = tensor[:, values]
    elif role in ("ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt.bias"):
        tensor = tensor[order]
    if role == "ssm_a":
        return {"linear_attn.A_log": np.log(-tensor)}
    if role == "ssm_dt.bias":
        return {"linear_attn.dt_bias": tensor}
    if role == "ssm_conv1d":
        tensor = tensor[:, None]
    if role == "ffn_gate_inp_shexp":
        tensor = tensor[None]
    if role in ("ffn_down_exps", "ffn_gate_up_exps"):
        return {f"mlp.experts.{role.removeprefix('ffn_').removesuffix('_exps')}_proj": tensor}
    if role in ("ffn_gate_exps", "ffn_up_exps"):
        halves = [tensors[f"{block}ffn_{half}_exps"] for half in ("gate", "up")]
        return {"mlp.experts.gate_up_proj": np.concatenate(halves, 1)}
    shifted = role.endswith("_norm") and role != "ssm_norm"
    return {f"{_NAMES[role]}.weight": tensor - 1 if shifted else tensor}
