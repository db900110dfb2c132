"""transformers as an oracle of one expert mixture: the block of a family, float32, with given weights.

Run by the oracle interpreter. A request (serving.py): `family` (a key of BLOCKS), `model` (npz path: `x` (rows, width)
and the block's parameters by their names in transformers), `used` (experts per row), `settings` (further members of the
family's configuration), `output` (npz path, which gets `out` (rows, width)).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from serving import serve
from transformers import Gemma4TextConfig, MixtralConfig, Qwen3_5MoeTextConfig, Qwen3MoeConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextExperts, Gemma4TextRouter
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock


class Gemma4Mixture(torch.nn.Module):
    """As Gemma4TextDecoderLayer puts the two together, without the norms around them."""

    def __init__(self, config: Gemma4TextConfig) -> None:
        super().__init__()
        self.router = Gemma4TextRouter(config)
        self.experts = Gemma4TextExperts(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, weights, index = self.router(x[0])
        return self.experts(x[0], index, weights)[None]


BLOCKS = {
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeSparseMoeBlock, ("num_experts", "num_experts_per_tok")),
    "mixtral": (MixtralConfig, MixtralSparseMoeBlock, ("num_local_experts", "num_experts_per_tok")),
    "qwen3_5_moe": (Qwen3_5MoeTextConfig, Qwen3_5MoeSparseMoeBlock, ("num_experts", "num_experts_per_tok")),
    "gemma4": (Gemma4TextConfig, Gemma4Mixture, ("num_experts", "top_k_experts")),
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    config_class, block_class, (count_name, used_name) = BLOCKS[request["family"]]
    with np.load(request["model"]) as stored:
        state = {name: torch.from_numpy(stored[name]) for name in stored}
    x, (experts, width, inner) = state.pop("x"), state["experts.down_proj"].shape
    sizes = {"hidden_size": width, "intermediate_size": inner, "moe_intermediate_size": inner}
    sizes |= {count_name: experts, used_name: request["used"], "experts_implementation": "eager"}
    block = block_class(config_class(**sizes, **request["settings"]))
    block.load_state_dict(state)
    with torch.inference_mode():
        np.savez(request["output"], out=block.eval()(x[None])[0].numpy())
    return {}


if __name__ == "__main__":
    serve(answer)
