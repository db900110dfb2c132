"""The product of rows with a (quantized) weight matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.activations import multiplies, round_as_product_wants
from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch

TWIN_BLOCK_VALUES = 1 << 22
"""Weight values the twin dequantizes at a time (16 MiB of float32), so that a file is never expanded in memory."""


@dataclass(frozen=True)
class Linear:
    """y = W x + b, with activations rounded as ggml rounds them for the weight's type: answers stay comparable."""

    def twin(self, x: torch.Tensor, weight: Tensor, bias: Tensor | None) -> torch.Tensor:
        import torch

        x = round_as_product_wants(x.flatten(1), weight.type)
        out = torch.empty(len(x), weight.shape[0])
        step = max(1, TWIN_BLOCK_VALUES // weight.shape[1])
        for first in range(0, weight.shape[0], step):
            block = torch.from_numpy(weight.float32(slice(first, first + step)))
            for row in range(len(x)):
                out[row, first : first + step] = torch.mv(block, x[row])
        return out if bias is None else out + torch.from_numpy(bias.float32())


def linear(x: Ref, weight: Tensor, bias: Tensor | None = None) -> Ref:
    """(rows, out) from `x` (rows, in), `weight` (out, in) of any stored type and `bias` (out,)."""
    if len(weight.shape) != 2 or weight.shape[1] != x.width:
        raise ValueError(f"{weight.name} of shape {weight.shape} does not take rows of {x.width} values")
    if not multiplies(weight.type):
        raise ValueError(f"{weight.name} is stored as {weight.type_name}, which nothing is multiplied with")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"{bias.name} has shape {bias.shape}, {weight.name} has {weight.shape[0]} rows")
    return x.recording.append(Linear(), (x, weight, bias), x.axis, (weight.shape[0],))
