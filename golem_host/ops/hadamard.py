"""The Walsh-Hadamard transform of activations whose weights were folded with it, as Bonsai 2's are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch

MAX_HADAMARD = 4096
"""The widest transform the kernels have."""


@dataclass(frozen=True)
class Hadamard:
    """Each block times H[i][j] = (-1)^popcount(i & j) / sqrt(block), by sums and differences of values 1, 2, 4, ...
    apart; signs are factors of its input, or with `signs_after` of its output.

    `exchanged` (first, second): a row is `first` times `second` heads and is read as `second` times `first`.
    """

    block: int
    signs_after: bool
    exchanged: tuple[int, int]

    def twin(self, x: torch.Tensor, signs: Tensor | None) -> torch.Tensor:
        import torch

        rows, width = len(x), x[0].numel()
        factors = torch.ones(width) if signs is None else torch.from_numpy(signs.float32())
        x = x.reshape(rows, *self.exchanged, -1).transpose(1, 2).reshape(rows, width)
        if not self.signs_after:
            x = x * factors
        apart = 1
        while apart < self.block:
            a, b = x.view(rows, -1, 2, apart).unbind(2)
            x = torch.stack([a + b, a - b], 2)
            apart *= 2
        x = x.reshape(rows, width) * torch.tensor(1 / math.sqrt(self.block))
        return x * factors if self.signs_after else x


def hadamard(
    x: Ref, signs: Tensor | None, block: int, *, signs_after: bool = False, exchanged: tuple[int, int] = (1, 1)
) -> Ref:
    """(rows, n) from `x` (rows, n), whose blocks of `block` values (a power of two) are transformed.

    `signs` (n,), if any, multiply what is transformed, or with `signs_after` the result. With `exchanged` (first,
    second) rows are seen as (first, second, n / (first * second)) and their first two axes exchanged before all else.
    """
    n, (first, second) = x.width, exchanged
    if not 0 < block <= MAX_HADAMARD or block & (block - 1) or n % block:
        raise ValueError(f"blocks of {block} values in rows of {n}; a power of two up to {MAX_HADAMARD} is possible")
    if signs is not None and signs.shape != (n,):
        raise ValueError(f"{signs.name} has shape {signs.shape}, the rows have {n} values")
    if first < 1 or second < 1 or n % (first * second):
        raise ValueError(f"rows of {n} values are not {first} times {second} heads")
    return x.recording.append(Hadamard(block, signs_after, exchanged), (x, signs), x.axis, (n,))
