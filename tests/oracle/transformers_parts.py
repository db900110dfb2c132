"""Parts of transformers' models by themselves: the gated delta net of Qwen3.5, and the multi-axis rotations.

Run by the oracle interpreter (transformers, torch). A request (serving.py): `part`, `seed`, `output` (npz path), and
- `gated_delta_net`: `rows`, `width`, `key_heads`, `value_heads`, `dim`, `taps`. The npz holds `x` (rows, width), `out`
  and `weights/<name>` as the module names them; the rule is applied token by token.
- `rotation`: `family` (qwen2_vl: sectioned; qwen3_5: interleaved), `sections` (pairs of time, height, width),
  `head_dim`, `dims` (how many are rotated), `base`, `rows`. The npz holds `x` (rows, heads, head_dim), `positions`
  (rows, 3), `out`.

All float32; what is drawn at random is drawn by torch from the seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from serving import serve
from transformers import Qwen2VLTextConfig, Qwen3_5TextConfig
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen3_5


def gated_delta_net(request: dict[str, Any]) -> dict[str, torch.Tensor]:
    config = Qwen3_5TextConfig(
        hidden_size=request["width"],
        linear_num_key_heads=request["key_heads"],
        linear_num_value_heads=request["value_heads"],
        linear_key_head_dim=request["dim"],
        linear_value_head_dim=request["dim"],
        linear_conv_kernel_dim=request["taps"],
        num_hidden_layers=1,
        layer_types=["linear_attention"],
    )
    layer = qwen3_5.Qwen3_5GatedDeltaNet(config, 0).float()
    for name, parameter in layer.named_parameters():
        # rates around 1 and small steps, so that states live for a few tokens and for many
        parameter.data = {
            "A_log": torch.randn(parameter.shape) - 1,
            "norm.weight": torch.rand(parameter.shape) + 0.5,
            "conv1d.weight": torch.randn(parameter.shape) * 0.5,
        }.get(name, torch.randn(parameter.shape) / request["width"] ** 0.5)
    x = torch.randn(1, request["rows"], request["width"])
    out = layer(x)
    weights = {f"weights/{name}": parameter for name, parameter in layer.named_parameters()}
    return {"x": x[0], "out": out[0], **weights}


def rotation(request: dict[str, Any]) -> dict[str, torch.Tensor]:
    module, config, kind = {
        "qwen2_vl": (qwen2_vl, Qwen2VLTextConfig, "Qwen2VLRotaryEmbedding"),
        "qwen3_5": (qwen3_5, Qwen3_5TextConfig, "Qwen3_5TextRotaryEmbedding"),
    }[request["family"]]
    parameters = {
        "rope_type": "default",
        "rope_theta": request["base"],
        "mrope_section": request["sections"],
        "partial_rotary_factor": request["dims"] / request["head_dim"],
    }
    sizes = {"hidden_size": 3 * request["head_dim"], "num_attention_heads": 3, "num_key_value_heads": 3}
    if request["family"] == "qwen3_5":
        sizes["head_dim"] = request["head_dim"]
    embedding = getattr(module, kind)(config(**sizes, rope_parameters=parameters))
    positions = torch.randint(0, 300, (3, 1, request["rows"]))
    x = torch.randn(1, 3, request["rows"], request["head_dim"])
    cos, sin = embedding(x, positions)
    out, _ = module.apply_rotary_pos_emb(x, x, cos, sin)
    return {"x": x[0].transpose(0, 1), "positions": positions[:, 0].T, "out": out[0].transpose(0, 1)}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(request["seed"])
    with torch.inference_mode():
        parts = {"gated_delta_net": gated_delta_net, "rotation": rotation}[request["part"]](request)
    np.savez(request["output"], **{name: tensor.detach().numpy() for name, tensor in parts.items()})
    return {}


if __name__ == "__main__":
    qwen3_5.torch_chunk_gated_delta_rule = qwen3_5.torch_recurrent_gated_delta_rule
    serve(answer)
