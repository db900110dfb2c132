"""Operations on an image whose pixels are the rows of a tensor, line by line, and whose channels are their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Conv2d:
    """A 3 x 3 convolution (cross-correlation, as `torch.nn.Conv2d`) of stride 1, padded by one pixel of zeros."""

    width: int

    def twin(self, x: torch.Tensor, weight: Tensor, bias: Tensor | None) -> torch.Tensor:
        import torch

        kernel = torch.from_numpy(weight.float32()).permute(0, 3, 1, 2).contiguous()
        image = x.reshape(-1, self.width, x.shape[-1]).permute(2, 0, 1)
        added = None if bias is None else torch.from_numpy(bias.float32())
        return torch.nn.functional.conv2d(image[None], kernel, added, padding=1)[0].permute(1, 2, 0).flatten(0, 1)


def conv2d(x: Ref, weight: Tensor, bias: Tensor | None = None, *, width: int) -> Ref:
    """(pixels, out) from `x` (pixels, in), whole lines of `width` pixels, `weight` (out, 3, 3, in) by line, column and
    channel, float32, and `bias` (out,).

    A pixel's bits depend on its place and the nine pixels around it alone.
    """
    if len(x.shape) != 1 or len(weight.shape) != 4 or weight.shape[1:] != (3, 3, x.width):
        raise ValueError(f"{weight.name} of shape {weight.shape} does not take pixels of shape {x.shape}")
    if weight.type is not GgmlType.F32:
        raise ValueError(f"{weight.name} is stored as {weight.type_name}; images are convolved with F32")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"{bias.name} has shape {bias.shape}, {weight.name} has {weight.shape[0]} outputs")
    if width < 1 or x.axis.capacity % width:
        raise ValueError(f"{x.axis.capacity} pixels are no lines of {width}")
    return x.recording.append(Conv2d(width), (x, weight, bias), x.axis, weight.shape[:1])
