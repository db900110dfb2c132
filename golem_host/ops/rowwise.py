"""How torch twins keep the promise that a row's bits do not depend on its company: rows are computed one by one.

torch chooses vector bodies, scalar tails and thread splits by the size of the whole tensor, so the same row may come
out differently in a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def rowwise(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """`function` applied to each row of the inputs alone; the rows stacked again."""
    import torch

    return torch.stack([function(*row) for row in zip(*inputs, strict=True)])
