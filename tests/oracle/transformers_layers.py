"""transformers as an oracle: a GGUF's weights in the model class of its family, float32, eager attention.

Run by the oracle interpreter (transformers, torch, gguf). A request (serving.py): `model` (path of a GGUF whose family
is a key of CLASSES; one of family llama with experts is mixtral), `tokens` (ids), `output` (npz path). The npz holds
float32 arrays (tokens, features), named as llama.cpp names them: `attn_out-N` (after the output projection),
`ffn_out-N`, `l_out-N` (the stream after block N), `result_norm`, `logits`.

What the GGUF converter changed is undone: query and key rows of llama and its like are taken out of their interleaved
order, Gemma's norm weights lose the 1 that was added. `rope_freqs.weight` divides the rotary frequencies. Where ggml,
and this host after it, keeps half precision, so does this pass: in attention, and for the tanh GELU's argument and
result. Without that the two would differ by 1e-3 and hide smaller faults.
"""

from __future__ import annotations

import sys
from typing import Any

import gguf
import numpy as np
import torch
import transformers_gemma4 as gemma4
import transformers_qwen35 as qwen35
from serving import serve
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

CLASSES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM),
    "mixtral": (MixtralConfig, MixtralForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
    "mistral3": (Ministral3Config, Ministral3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
    **gemma4.CLASSES,
    **qwen35.CLASSES,
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM),
}
INTERLEAVED = ("llama", "mistral3", "mixtral", "smollm3")
"""Families whose query and key rows the converter reorders."""
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}
GEMMA = ("gemma2", "gemma3")
GEMMA_NAMES = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def build(path: str) -> PreTrainedModel:
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    architecture = keys["general.architecture"]
    keys = {name.removeprefix(architecture + "."): value for name, value in keys.items()}
    if architecture == "llama" and keys.get("expert_count"):
        architecture = "mixtral"
    tensors = {
        tensor.name.removesuffix(".weight"): gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in reader.tensors
    }
    config_class, model_class = CLASSES[architecture]
    model = model_class(config_class(**settings(architecture, keys, tensors)))
    if architecture in qwen35.CLASSES:
        return loaded(model, qwen35.state(keys, tensors))
    if architecture in gemma4.CLASSES:
        return loaded(model, gemma4.state(tensors))
    heads = {"attn_q": keys["attention.head_count"], "attn_k": keys["attention.head_count_kv"]}
    names = BLOCK_NAMES | GEMMA_NAMES if architecture in GEMMA else BLOCK_NAMES
    state: dict[str, np.ndarray] = {}
    for name, tensor in tensors.items():
        if architecture in GEMMA and "norm" in name:
            tensor = tensor - 1
        if name.startswith("blk."):
            _, layer, role, *bias = name.split(".")
            if architecture in INTERLEAVED and role in heads:
                rows, columns = tensor.shape
                tensor = tensor.reshape(heads[role], rows // heads[role] // 2, 2, columns).swapaxes(1, 2)
                tensor = tensor.reshape(rows, columns)
            if role.endswith("_exps"):
                state |= experts(layer, role, tensors)
            else:
                state[f"model.layers.{layer}.{names[role]}.{''.join(bias) or 'weight'}"] = tensor
        elif name == "rope_freqs":
            model.model.rotary_emb.inv_freq /= torch.from_numpy(tensor.copy())
        else:
            known = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
            state[known[name] + ".weight"] = tensor
    return loaded(model, state)


def loaded(model: PreTrainedModel, state: dict[str, np.ndarray]) -> PreTrainedModel:
    """The model with these parameters, the embedding table for the head that a tied file lacks."""
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    model.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in state.items()})
    return model.eval()


def experts(layer: str, role: str, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The stacks of one layer as transformers keeps them: gate rows before up rows, and down."""
    name = f"model.layers.{layer}.mlp.experts."
    if role == "ffn_down_exps":
        return {name + "down_proj": tensors[f"blk.{layer}.{role}"]}
    halves = [tensors[f"blk.{layer}.ffn_{half}_exps"] for half in ("gate", "up")]
    return {name + "gate_up_proj": np.concatenate(halves, 1)}


def attend(
    layer: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scaling: float,
    softcap: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Eager attention with what ggml rounds to half precision: queries, keys, softmaxed weights, values."""
    if layer.config.model_type in ("gemma2", "gemma3_text"):  # whose queries ggml scales before it rounds them
        query, scaling = query * scaling, 1.0
    key, value = (each.half().float().repeat_interleave(layer.num_key_value_groups, 1) for each in (key, value))
    scores = scaling * (query.half().float() @ key.transpose(2, 3))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    weights = torch.softmax(scores + mask, -1).half().float()
    return (weights @ value).transpose(1, 2).contiguous(), weights


class HalfGelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        exact = torch.nn.functional.gelu(x.half().float(), approximate="tanh")
        return torch.where(x.abs() < 10, exact.half().float(), x.relu())


def settings(architecture: str, keys: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """The configuration class's arguments from GGUF metadata."""
    vocabulary, width = tensors["token_embd"].shape
    heads = keys["attention.head_count"]
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": keys.get("rope.freq_base", 10000.0)}
    if "rope.scaling.type" in keys:
        rope |= {"rope_type": keys["rope.scaling.type"], "factor": keys["rope.scaling.factor"]}
    result = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": keys["feed_forward_length"],
        "num_hidden_layers": keys["block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": keys["attention.head_count_kv"],
        "head_dim": keys.get("attention.key_length", width // heads),
        "max_position_embeddings": keys["context_length"],
        "rms_norm_eps": keys["attention.layer_norm_rms_epsilon"],
        "tie_word_embeddings": "output" not in tensors,
        "rope_parameters": rope,
        "attn_implementation": "eager",
    }
    if architecture == "qwen3moe":
        result |= {
            "num_experts": keys["expert_count"],
            "num_experts_per_tok": keys["expert_used_count"],
            "moe_intermediate_size": keys["expert_feed_forward_length"],
            "norm_topk_prob": True,
            "experts_implementation": "eager",
        }
    if architecture in gemma4.CLASSES:
        result |= gemma4.settings(keys) | gemma4.sizes(tensors)
    if architecture == "gemma2":
        result |= {
            "layer_types": ["sliding_attention", "full_attention"] * (keys["block_count"] // 2),
            "sliding_window": keys["attention.sliding_window"],
            "query_pre_attn_scalar": result["head_dim"],
            "attn_logit_softcapping": keys["attn_logit_softcapping"],
            "final_logit_softcapping": keys["final_logit_softcapping"],
        }
    if architecture in qwen35.CLASSES:
        result |= qwen35.settings(keys)
    if architecture == "mixtral":
        result |= {
            "num_local_experts": keys["expert_count"],
            "num_experts_per_tok": keys["expert_used_count"],
            "sliding_window": None,
            "experts_implementation": "eager",
        }
    if architecture == "mistral3":
        rope |= {
            "original_max_position_embeddings": keys["rope.scaling.original_context_length"],
            "beta_fast": keys["rope.scaling.yarn_beta_fast"],
            "beta_slow": keys["rope.scaling.yarn_beta_slow"],
            "mscale": 1.0,
            "mscale_all_dim": keys["rope.scaling.yarn_log_multiplier"],
            "llama_4_scaling_beta": keys["attention.temperature_scale"],
        }
    if architecture == "qwen2":
        del result["head_dim"]
    if architecture == "smollm3":
        result |= {
            "no_rope_layers": [int((layer + 1) % 4 != 0) for layer in range(keys["block_count"])],
            "pad_token_id": None,
        }
    if architecture == "gemma3":
        period = keys.get("attention.sliding_window_pattern", 6)
        sliding = {"rope_type": "default", "rope_theta": keys.get("rope.freq_base_swa", 10000.0)}
        result |= {
            "rope_parameters": {"full_attention": rope, "sliding_attention": sliding},
            "layer_types": [
                "full_attention" if layer % period == period - 1 else "sliding_attention"
                for layer in range(keys["block_count"])
            ],
            "sliding_window": keys["attention.sliding_window"],
            "query_pre_attn_scalar": result["head_dim"],
            "final_logit_softcapping": keys.get("final_logit_softcapping"),
        }
    return result


def answer(request: dict[str, Any]) -> dict[str, Any]:
    model = build(request["model"])
    seen: dict[str, np.ndarray] = {}

    def keep(name: str) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            seen[name] = (output[0] if isinstance(output, tuple) else output)[0].numpy()

        return hook

    for index, layer in enumerate(model.model.layers):
        mixer = getattr(layer, "linear_attn", None) or layer.self_attn
        mixer.register_forward_hook(keep(f"attn_out-{index}"))
        layer.mlp.register_forward_hook(keep(f"ffn_out-{index}"))
        layer.register_forward_hook(keep(f"l_out-{index}"))
        for module in layer.modules():
            if model.config.model_type.startswith("gemma") and hasattr(module, "act_fn"):
                module.act_fn = HalfGelu()
    model.model.norm.register_forward_hook(keep("result_norm"))
    with torch.inference_mode():
        seen["logits"] = model(torch.tensor([request["tokens"]]), use_cache=False).logits[0].numpy()
    np.savez(request["output"], **seen)
    return {}


if __name__ == "__main__":
    for _, model_class in CLASSES.values():
        sys.modules[model_class.__module__].eager_attention_forward = attend
    serve(answer)
