"""The product of rows with a (quantized) weight matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.activations import multiplies, round_as_product_wants
from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

if TYPE_CHECKING:
    import torch

FLOATS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)

TWIN_BLOCK_VALUES = 1 << 22
"""Weight values the twin dequantizes at a time (16 MiB of float32), so that a file is never expanded in memory."""


@dataclass(frozen=True)
class Linear:
    """y = W x + b. With `rounds` activations are rounded as ggml rounds them for the weight's type: answers stay
    comparable."""

    rounds: bool = True

    def twin(self, x: torch.Tensor, weight: Tensor, bias: Tensor | None) -> torch.Tensor:
        import torch

        x = round_as_product_wants(x.flatten(1), weight.type) if self.rounds else x.flatten(1)
        out = torch.empty(len(x), weight.shape[0])
        step = max(1, TWIN_BLOCK_VALUES // weight.shape[1])
        for first in range(0, weight.shape[0], step):
            block = torch.from_numpy(weight.float32(slice(first, first + step)))
            for row in range(len(x)):
                out[row, first : first + step] = torch.mv(block, x[row])
        return out if bias is None else out + torch.from_numpy(bias.float32())


def linear(x: Ref, weight: Tensor, bias: Tensor | None = None, *, rounds: bool = True) -> Ref:
    """(rows, out) from `x` (rows, in), `weight` (out, in) of any stored type and `bias` (out,).

    `rounds=False` multiplies `x` as it is, as models do whose half-precision weights are computed with in float32; for
    weights of type F32, F16 and BF16.
    """
    if len(weight.shape) != 2 or weight.shape[1] != x.width:
        raise ValueError(f"{weight.name} of shape {weight.shape} does not take rows of {x.width} values")
    if not multiplies(weight.type):
        raise ValueError(f"{weight.name} is stored as {weight.type_name}, which nothing is multiplied with")
    if not rounds and weight.type not in FLOATS:
        raise ValueError(f"{weight.name} is stored as {weight.type_name}, whose products need rounded activations")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"{bias.name} has shape {bias.shape}, {weight.name} has {weight.shape[0]} rows")
    return x.recording.append(Linear(rounds), (x, weight, bias), x.axis, (weight.shape[0],))
