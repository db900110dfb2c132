"""Gemma 4 for transformers_layers.py: a GGUF's metadata and tensors as transformers wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

CLASSES = {"gemma4": (Gemma4TextConfig, Gemma4ForCausalLM)}
_NAMES = {
    "token_embd": "model.embed_tokens.weight",
    "per_layer_token_embd": "model.embed_tokens_per_layer.weight",
    "per_layer_model_proj": "model.per_layer_model_projection.weight",
    "per_layer_proj_norm": "model.per_layer_projection_norm.weight",
    "output_norm": "model.norm.weight",
    "output": "lm_head.weight",
}
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm.weight",
    "attn_q": "self_attn.q_proj.weight",
    "attn_k": "self_attn.k_proj.weight",
    "attn_v": "self_attn.v_proj.weight",
    "attn_output": "self_attn.o_proj.weight",
    "attn_q_norm": "self_attn.q_norm.weight",
    "attn_k_norm": "self_attn.k_norm.weight",
    "post_attention_norm": "post_attention_layernorm.weight",
    "ffn_norm": "pre_feedforward_layernorm.weight",
    "ffn_gate": "mlp.gate_proj.weight",
    "ffn_up": "mlp.up_proj.weight",
    "ffn_down": "mlp.down_proj.weight",
    "post_ffw_norm": "post_feedforward_layernorm.weight",
    "post_ffw_norm_1": "post_feedforward_layernorm_1.weight",
    "post_ffw_norm_2": "post_feedforward_layernorm_2.weight",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2.weight",
    "inp_gate": "per_layer_input_gate.weight",
    "proj": "per_layer_projection.weight",
    "post_norm": "post_per_layer_input_norm.weight",
    "layer_output_scale": "layer_scalar",
    "ffn_gate_inp": "router.proj.weight",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_down_exps": "experts.down_proj",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "ffn_gate_up_exps": "experts.gate_up_proj",
}


def settings(keys: dict[str, Any]) -> dict[str, Any]:
    """What the configuration has beside the generic members."""
    sliding = keys["attention.sliding_window_pattern"]
    heads = dict(zip(sliding, keys["attention.head_count_kv"], strict=True))
    inner = keys["feed_forward_length"]
    first, last = (inner[0], inner[-1]) if isinstance(inner, list) else (inner, inner)
    experts = keys.get("expert_count", 0)
    return {
        "intermediate_size": first,
        "use_double_wide_mlp": last == 2 * first,
        "num_key_value_heads": heads[True],
        "head_dim": keys["attention.key_length_swa"],
        "global_head_dim": keys["attention.key_length"],
        "num_global_key_value_heads": heads[False],
        "layer_types": ["sliding_attention" if each else "full_attention" for each in sliding],
        "sliding_window": keys["attention.sliding_window"],
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": keys["rope.freq_base"],
                "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": keys["rope.freq_base_swa"]},
        },
        "hidden_size_per_layer_input": keys["embedding_length_per_layer_input"],
        "num_kv_shared_layers": keys["attention.shared_kv_layers"],
        "final_logit_softcapping": keys["final_logit_softcapping"],
        "enable_moe_block": bool(experts),
        "num_experts": experts or None,
        "top_k_experts": keys.get("expert_used_count"),
        "moe_intermediate_size": keys.get("expert_feed_forward_length"),
        "experts_implementation": "eager",
    }


def sizes(tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """What only the tensors tell."""
    values = [f"blk.{name.split('.')[1]}.attn_v" in tensors for name in tensors if name.endswith(".attn_k")]
    return {"attention_k_eq_v": not all(values), "vocab_size_per_layer_input": len(tensors["token_embd"])}


def state(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters by their names in transformers."""
    found: dict[str, np.ndarray] = {}
    for name, tensor in tensors.items():
        if name in _NAMES:
            found[_NAMES[name]] = tensor
        elif name.startswith("blk."):
            _, layer, role = name.split(".", 2)
            if role in _BLOCK_NAMES:
                found[f"model.layers.{layer}.{_BLOCK_NAMES[role]}"] = tensor
            elif role == "ffn_gate_exps":
                both = [tensor, tensors[f"blk.{layer}.ffn_up_exps"]]
                found[f"model.layers.{layer}.experts.gate_up_proj"] = np.concatenate(both, 1)
    return found
