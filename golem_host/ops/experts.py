"""The expert mixture (Shazeer et al. 2017): a router chooses a few experts for a row, whose outputs are summed.

    routes = route(linear(h, router), used, Weighting.SOFTMAX_CHOSEN)
    inner = swiglu(expert_linear(h, routes, gate), expert_linear(h, routes, up))
    out = mix(expert_linear(inner, routes, down), routes)

Routes are int32 (rows, used, 2): an expert's number and the bits of its float32 weight (`golem_route` of the kernels).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from golem_host.ops.activations import multiplies
from golem_host.ops.linear import Linear
from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch

MAX_EXPERTS = 65536


class Weighting(IntEnum):
    """How the logits of the chosen experts become weights."""

    SOFTMAX = 0
    """Softmax over all experts: the weights of a row sum to less than one."""
    SOFTMAX_CHOSEN = 1
    """Softmax over the chosen, which is softmax over all renormalized to a sum of one (Mixtral, Qwen3, Gemma 4)."""
    SIGMOID = 2
    """Each by itself. With one expert, which every row then chooses: the gate of Qwen3.5's shared expert."""


@dataclass(frozen=True)
class Route:
    used: int
    weighting: Weighting
    factor: float

    def twin(self, logits: torch.Tensor, scale: Tensor | None) -> torch.Tensor:
        import torch

        factors = torch.full(logits.shape[1:], self.factor)
        if scale is not None:
            factors *= torch.from_numpy(scale.float32())
        return rowwise(lambda row: self._one(row, factors), logits)

    def _one(self, logits: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        import torch

        chosen = torch.argsort(-logits, stable=True)[: self.used]  # ascending, so that NaN comes last
        best = logits[chosen]
        if self.weighting is Weighting.SIGMOID:
            weights = torch.sigmoid(best)
        else:
            over = logits if self.weighting is Weighting.SOFTMAX else best
            total = torch.exp(over - best[0]).double().sum().float()
            weights = torch.exp(best - best[0]) / total
        return torch.stack([chosen.int(), (weights * factors[chosen]).view(torch.int32)], -1)


def route(logits: Ref, used: int, weighting: Weighting, *, factor: float = 1.0, scale: Tensor | None = None) -> Ref:
    """Routes (rows, used, 2) from router logits (rows, experts): the `used` largest, ties by lower expert, NaN last.

    A weight is multiplied by `factor` and by its expert's entry of `scale` (experts,), the scale of an expert's output.
    Experts are chosen by their logits, not by probabilities that rounding may make equal.
    """
    experts = logits.width
    if not 0 < used <= experts <= MAX_EXPERTS:
        raise ValueError(f"{used} of {experts} experts cannot be chosen")
    if scale is not None and scale.shape != (experts,):
        raise ValueError(f"{scale.name} has shape {scale.shape}, the router has {experts} experts")
    op = Route(used, weighting, factor)
    return logits.recording.append(op, (logits, scale), logits.axis, (used, 2), dtype="i32")


@dataclass(frozen=True)
class ExpertLinear:
    """`Linear` with the matrix of the expert that each row and slot chose: the same bits."""

    first: int
    rows: int

    def twin(self, x: torch.Tensor, routes: torch.Tensor, weight: Tensor) -> torch.Tensor:
        import torch

        experts = routes[..., 0]
        x = x.flatten(1).view(len(x), -1, weight.shape[2]).expand(-1, experts.shape[1], -1)
        out = torch.empty(*experts.shape, self.rows)
        for expert in experts.unique().tolist():
            matrix = weight.matrix(expert, slice(self.first, self.first + self.rows))
            chose = experts == expert
            out[chose] = Linear().twin(x[chose], matrix, None)
        return out


def expert_linear(x: Ref, routes: Ref, weight: Tensor, rows: range | None = None) -> Ref:
    """(rows, used, out) from `x` (rows, in), or (rows, used, in), one for each slot, and `weight` (experts, out, in).

    `rows` names consecutive rows of each expert's matrix where only those are wanted, such as one half of a fused gate
    and up. A route to an expert that is not there fails the pass.
    """
    if len(weight.shape) != 3:
        raise ValueError(f"{weight.name} of shape {weight.shape} is not a matrix for each expert")
    if not multiplies(weight.type):
        raise ValueError(f"{weight.name} is stored as {weight.type_name}, which nothing is multiplied with")
    used, (experts, out, n) = routes.shape[0], weight.shape
    rows = range(out) if rows is None else rows
    if x.width not in (n, used * n):
        raise ValueError(f"{weight.name} of shape {weight.shape} does not take rows of {x.shape} values")
    if rows.step != 1 or not 0 <= rows.start < rows.stop <= out:
        raise ValueError(f"{weight.name} has no rows {rows} in matrices of {out}")
    if experts > MAX_EXPERTS:
        raise ValueError(f"{weight.name} has {experts} experts; at most {MAX_EXPERTS} are possible")
    op = ExpertLinear(rows.start, len(rows))
    return x.recording.append(op, (x, routes, weight), x.axis, (used, len(rows)))


@dataclass(frozen=True)
class Mix:
    """Slots are summed in their order, the likeliest first, as ggml does: it depends on nothing but the row."""

    def twin(self, y: torch.Tensor, routes: torch.Tensor) -> torch.Tensor:
        import torch

        weights = routes[..., 1].contiguous().view(torch.float32)
        out = weights[:, :1] * y[:, 0]
        for slot in range(1, y.shape[1]):
            out = out + weights[:, slot : slot + 1] * y[:, slot]
        return out


def mix(y: Ref, routes: Ref) -> Ref:
    """(rows, n): the sum over slots of weight * `y` (rows, used, n)."""
    if len(y.shape) != 2 or y.shape[0] != routes.shape[0]:
        raise ValueError(f"rows of shape {y.shape} do not hold one vector for each of {routes.shape[0]} experts")
    return y.recording.append(Mix(), (y, routes), y.axis, y.shape[1:])
