"""Root mean square (Zhang and Sennrich 2019), layer (Ba et al. 2016) and L2 normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis; the squares are summed in double, as ggml does."""

    eps: float

    def twin(self, x: torch.Tensor, weight: Tensor | None) -> torch.Tensor:
        import torch

        def one(row: torch.Tensor) -> torch.Tensor:
            mean = row.double().square().mean(-1, keepdim=True).float()
            return row * (1.0 / torch.sqrt(mean + self.eps))

        out = rowwise(one, x)
        return out if weight is None else out * torch.from_numpy(weight.float32())


def rms_norm(x: Ref, weight: Tensor | None, eps: float) -> Ref:
    """Normalise the last axis of `x` (rows, ..., n) and multiply by `weight` (n,), if any."""
    if weight is not None and weight.shape != x.shape[-1:]:
        raise ValueError(f"{weight.name} has shape {weight.shape}, the rows have {x.shape[-1]} values")
    return x.recording.append(RmsNorm(eps), (x, weight), x.axis, x.shape, in_place=(0,))


@dataclass(frozen=True)
class LayerNorm:
    """(x - mean) / sqrt(variance + eps) * weight + bias, if any, over a row; sums are taken in double, as ggml does."""

    eps: float

    def twin(self, x: torch.Tensor, weight: Tensor, bias: Tensor | None) -> torch.Tensor:
        import torch

        def one(row: torch.Tensor) -> torch.Tensor:
            centred = row - row.double().mean().float()
            variance = centred.square().double().mean().float()
            return centred * (1.0 / torch.sqrt(variance + self.eps))

        out = rowwise(one, x) * torch.from_numpy(weight.float32())
        return out if bias is None else out + torch.from_numpy(bias.float32())


def layer_norm(x: Ref, weight: Tensor, bias: Tensor | None, eps: float) -> Ref:
    """Normalise the rows of `x` (rows, n), multiply by `weight` (n,) and add `bias` (n,), if any."""
    for each in (weight, bias):
        if each is not None and each.shape != x.shape:
            raise ValueError(f"{each.name} has shape {each.shape}, the rows have shape {x.shape}")
    return x.recording.append(LayerNorm(eps), (x, weight, bias), x.axis, x.shape, in_place=(0,))


@dataclass(frozen=True)
class L2Norm:
    """x / sqrt(sum(x^2) + eps) over each of the first `groups` of `size` values of a row; the rest passes through."""

    groups: int
    size: int
    eps: float

    def twin(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        def one(row: torch.Tensor) -> torch.Tensor:
            heads = row[: self.groups * self.size].view(self.groups, self.size)
            total = heads.double().square().sum(-1, keepdim=True).float()
            return torch.cat([(heads * (1.0 / torch.sqrt(total + self.eps))).flatten(), row[heads.numel() :]])

        return rowwise(one, x)


def l2_norm(x: Ref, groups: int, size: int, eps: float) -> Ref:
    """Normalise each of the first `groups` heads of `size` values of `x` (rows, n).

    Before a delta rule these are the queries and keys, of rows that hold the values after them.
    """
    if len(x.shape) != 1 or groups < 1 or size < 1 or groups * size > x.width:
        raise ValueError(f"{groups} groups of {size} values in rows of shape {x.shape}")
    return x.recording.append(L2Norm(groups, size, eps), (x,), x.axis, x.shape, in_place=(0,))
