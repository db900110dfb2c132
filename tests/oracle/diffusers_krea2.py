"""Krea 2 by diffusers and transformers, on files with ComfyUI's names.

Run by the oracle interpreter. A request (serving.py): `model` (a ComfyUI root with one file for each role), `output`
(the .npz to write), and `part`:

    dit       `context` (tokens, taps, width), `latent` (16, h, w), `sigma`: `velocity` (16, h, w)
    encoder   `ids`, `taps`: `taps` (tokens, taps, width)
    vae       `latent`: `picture` (3, h, w) before clamping to pixels
    picture   `prompts` as [ids, how many of them lead] of the prompt and of what it shall not be, `cfg`, `steps`,
              `seed`, `size`: `picture` uint8 (h, w, 3)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, Krea2Transformer2DModel
from diffusers.loaders.single_file_utils import (
    convert_krea2_transformer_checkpoint_to_diffusers,
    convert_wan_vae_to_diffusers,
)
from safetensors.torch import load_file
from serving import serve
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextConfig, Qwen3VLTextModel


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Float tensors of the only file below a folder; float8 times its scale in bfloat16, as ComfyUI does."""
    tensors = load_file(next(folder.rglob("*.safetensors")))
    found = {}
    for name, value in tensors.items():
        layer = name.removesuffix(".weight")
        if name.endswith(("_scale", "scale_weight", "comfy_quant", "scaled_fp8")):
            continue
        if value.dtype == torch.float8_e4m3fn:
            scale = next(
                tensors[f"{layer}.{key}"] for key in ("weight_scale", "scale_weight") if f"{layer}.{key}" in tensors
            )
            value = (value.float() * scale.reshape(())).bfloat16()
        found[name] = value.float()
    return found


def dit(root: Path) -> Krea2Transformer2DModel:
    raw = {
        name.removeprefix("model.diffusion_model."): value
        for name, value in weights(root / "models/diffusion_models").items()
    }
    head_dim = len(raw["blocks.0.attn.qknorm.qnorm.scale"])
    text_dim = len(raw["txtfusion.layerwise_blocks.0.attn.qknorm.qnorm.scale"])
    sixth = 6 * (head_dim // 16)
    model = Krea2Transformer2DModel(
        in_channels=raw["first.weight"].shape[1],
        num_layers=sum(name.startswith("blocks.") and name.endswith("mod.lin") for name in raw),
        attention_head_dim=head_dim,
        num_attention_heads=raw["blocks.0.attn.wq.weight"].shape[0] // head_dim,
        num_key_value_heads=raw["blocks.0.attn.wk.weight"].shape[0] // head_dim,
        intermediate_size=raw["blocks.0.mlp.up.weight"].shape[0],
        timestep_embed_dim=raw["tmlp.0.weight"].shape[1],
        text_hidden_dim=len(raw["txtmlp.0.scale"]),
        num_text_layers=raw["txtfusion.projector.weight"].shape[1],
        text_num_attention_heads=raw["txtfusion.layerwise_blocks.0.attn.wq.weight"].shape[0] // text_dim,
        text_num_key_value_heads=raw["txtfusion.layerwise_blocks.0.attn.wk.weight"].shape[0] // text_dim,
        text_intermediate_size=raw["txtfusion.layerwise_blocks.0.mlp.up.weight"].shape[0],
        axes_dims_rope=(head_dim - 2 * sixth, sixth, sixth),
    )
    model.load_state_dict(convert_krea2_transformer_checkpoint_to_diffusers(raw))
    return model.eval()


def packed(latent: torch.Tensor) -> torch.Tensor:
    c, h, w = latent.shape
    return latent.reshape(c, h // 2, 2, w // 2, 2).permute(1, 3, 0, 2, 4).reshape(1, -1, 4 * c)


def unpacked(x: torch.Tensor, h: int, w: int) -> torch.Tensor:
    return x.reshape(h // 2, w // 2, -1, 2, 2).permute(2, 0, 3, 1, 4).reshape(-1, h, w)


def velocity(model: Krea2Transformer2DModel, context: torch.Tensor, latent: torch.Tensor, sigma: float) -> torch.Tensor:
    h, w = latent.shape[1:]
    at = torch.zeros(len(context) + h * w // 4, 3)
    at[len(context) :, 1] = torch.arange(h // 2).repeat_interleave(w // 2)
    at[len(context) :, 2] = torch.arange(w // 2).repeat(h // 2)
    out = model(
        hidden_states=packed(latent),
        encoder_hidden_states=context[None],
        timestep=torch.tensor([sigma], dtype=torch.float32),
        position_ids=at,
        encoder_attention_mask=None,
    ).sample
    return unpacked(out, h, w)


def taps(root: Path, ids: list[int], count: int) -> torch.Tensor:
    raw = weights(root / "models/text_encoders")
    mark = "layers.0.post_attention_layernorm.weight"
    prefix = next(name for name in raw if name.endswith(mark)).removesuffix(mark)
    raw = {name.removeprefix(prefix): value for name, value in raw.items() if name.startswith(prefix)}
    head_dim = len(raw["layers.0.self_attn.q_norm.weight"])
    layers = sum(name.endswith("q_norm.weight") for name in raw)
    vocabulary, width = raw["embed_tokens.weight"].shape
    config = Qwen3VLTextConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=raw["layers.0.mlp.up_proj.weight"].shape[0],
        # What leaves the last layer is normed, and is a tap's value before that: one more layer, of zeros.
        num_hidden_layers=layers + 1,
        num_attention_heads=raw["layers.0.self_attn.q_proj.weight"].shape[0] // head_dim,
        num_key_value_heads=raw["layers.0.self_attn.k_proj.weight"].shape[0] // head_dim,
        head_dim=head_dim,
        rms_norm_eps=1e-6,
        rope_parameters={
            "rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True,
            "mrope_section": [head_dim // 2 - 2 * (head_dim // 6), head_dim // 6, head_dim // 6],
        },
    )  # fmt: skip
    model = Qwen3VLTextModel(config).eval()
    model.load_state_dict(raw, strict=False)
    states = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    return torch.stack([states[3 * tap + 2][0] for tap in range(count)], 1)


def decoder(root: Path) -> AutoencoderKLQwenImage:
    raw = weights(root / "models/vae")
    model = AutoencoderKLQwenImage(
        base_dim=len(raw["decoder.head.0.gamma"]), z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
        temperal_downsample=[False, True, True],
    )  # fmt: skip
    missing, unexpected = model.load_state_dict(convert_wan_vae_to_diffusers(raw), strict=False)
    assert not unexpected, unexpected
    left = [name for name in missing if not name.startswith(("encoder.", "quant_conv")) and "time_conv" not in name]
    assert not left, left
    return model.eval()


def decoded(root: Path, latent: torch.Tensor) -> torch.Tensor:
    model = decoder(root)
    std, mean = (torch.tensor(each).reshape(-1, 1, 1) for each in (model.config.latents_std, model.config.latents_mean))
    return model.decode((latent * std + mean)[None, :, None]).sample[0, :, 0]


def picture(root: Path, request: dict[str, Any]) -> torch.Tensor:
    model = dit(root)
    count = model.config.num_text_layers
    contexts = [taps(root, ids, count)[leading:] for ids, leading in request["prompts"]]
    width, height = request["size"]
    generator = torch.Generator("cpu").manual_seed(request["seed"])
    x = torch.randn([1, 16, 1, height // 8, width // 8], generator=generator)[0, :, 0]
    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=6400
    )
    steps = request["steps"]
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=1.15)
    for t in scheduler.timesteps:
        sigma = float(t) / scheduler.config.num_train_timesteps
        v = velocity(model, contexts[0], x, sigma)
        if len(contexts) > 1:
            other = velocity(model, contexts[1], x, sigma)
            v = other + request["cfg"] * (v - other)
        x = scheduler.step(v, t, x).prev_sample
    pixels = ((decoded(root, x) + 1) / 2).clamp(0, 1)
    return (255 * pixels).permute(1, 2, 0).to(torch.uint8)


@torch.no_grad()
def answer(request: dict[str, Any]) -> dict[str, Any]:
    root, part = Path(request["model"]), request["part"]
    if part == "picture":
        arrays = {"picture": picture(root, request)}
    elif part == "encoder":
        arrays = {"taps": taps(root, request["ids"], request["taps"])}
    elif part == "vae":
        arrays = {"picture": decoded(root, torch.tensor(request["latent"]))}
    else:
        context, latent = torch.tensor(request["context"]), torch.tensor(request["latent"])
        arrays = {"velocity": velocity(dit(root), context, latent, request["sigma"])}
    np.savez(request["output"], **{name: value.numpy() for name, value in arrays.items()})
    return {}


if __name__ == "__main__":
    serve(answer)
