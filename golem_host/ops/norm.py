"""Root mean square normalisation (Zhang and Sennrich 2019)."""

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
