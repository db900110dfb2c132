"""The gated delta rule (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464), as Qwen3-Next and Qwen3.5 use it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref
from golem_host.ops.rowwise import rowwise
from golem_host.ops.state import State, follow
from golem_host.weights.tensor import Tensor

if TYPE_CHECKING:
    import torch

MAX_KEY_DIM = 256
"""The longest key the kernel has."""


@dataclass(frozen=True)
class Decay:
    """exp(rate * softplus(x + bias)): what part of a state is kept."""

    def twin(self, x: torch.Tensor, rate: Tensor, bias: Tensor) -> torch.Tensor:
        import torch

        rates, biases = torch.from_numpy(rate.float32()), torch.from_numpy(bias.float32())
        return rowwise(lambda row: torch.exp(rates * torch.nn.functional.softplus(row + biases)), x)


def decay(x: Ref, rate: Tensor, bias: Tensor) -> Ref:
    """(rows, heads) from `x` (rows, heads); `rate` (heads,) is -exp(A_log), as GGUF files store it in `ssm_a`, `bias`
    (heads,) is `ssm_dt`."""
    for each in (rate, bias):
        if each.shape != x.shape:
            raise ValueError(f"{each.name} has shape {each.shape}, the rows have shape {x.shape}")
    return x.recording.append(Decay(), (x, rate, bias), x.axis, x.shape, in_place=(0,))


@dataclass(frozen=True)
class GatedDelta:
    """One step a row: S = decay S; S += k (beta (v - S^T k))^T; out = scale S^T q (`torch_recurrent_gated_delta_rule`).

    Strictly one row after the other, so that bits do not depend on how a prompt was cut. Value head h reads query and
    key head h % key_heads.
    """

    key_heads: int
    scale: float

    def twin(
        self,
        qkv: torch.Tensor,
        decay: torch.Tensor,
        beta: torch.Tensor,
        state: State,
        slots: torch.Tensor,
        positions: torch.Tensor,
    ) -> torch.Tensor:
        import torch

        heads, key_dim, value_dim = state.shape
        keys = self.key_heads * key_dim
        q, k, v = qkv.split([keys, keys, heads * value_dim], -1)
        values = torch.from_numpy(state.values)
        out = torch.empty(len(qkv), heads, value_dim)
        for row, (slot, fresh) in enumerate(follow(state, slots, positions)):
            kept = values[slot]
            if fresh:
                kept.zero_()
            query, key = (
                each[row].view(-1, key_dim).repeat(heads // self.key_heads, 1).unsqueeze(-1) for each in (q, k)
            )
            kept *= decay[row].view(-1, 1, 1)
            seen = (kept * key).sum(1)
            kept += key * (beta[row].unsqueeze(-1) * (v[row].view(heads, value_dim) - seen)).unsqueeze(1)
            out[row] = self.scale * (kept * query).sum(1)
        return out


def gated_delta(qkv: Ref, decay: Ref, beta: Ref, state: State, slots: Ref, positions: Ref, *, key_heads: int) -> Ref:
    """(rows, value_heads, value_dim); `state` has shape (value_heads, key_dim, value_dim).

    `qkv` (rows, n) holds all queries, all keys (both `key_heads` of key_dim, l2-normalised), then all values; queries
    are scaled by 1 / sqrt(key_dim). `decay` and `beta` are (rows, value_heads), both in 0..1. Value head h goes with
    key head h % key_heads, the order of GGUF files (transformers has groups of neighbours instead). `State` says which
    int32 `slots` and `positions` (rows,) a pass may have.
    """
    heads, key_dim, value_dim = state.shape
    if heads % key_heads:
        raise ValueError(f"{heads} value heads do not divide into {key_heads} key heads")
    if key_dim > MAX_KEY_DIM:
        raise ValueError(f"keys of {key_dim} values; at most {MAX_KEY_DIM} are possible")
    width = 2 * key_heads * key_dim + heads * value_dim
    if qkv.shape != (width,) or decay.shape != (heads,) or beta.shape != (heads,):
        raise ValueError(
            f"a state of shape {state.shape} with {key_heads} key heads wants rows of {width} values, {heads} decays "
            f"and {heads} betas, not {qkv.shape}, {decay.shape} and {beta.shape}"
        )
    op = GatedDelta(key_heads, 1 / math.sqrt(key_dim))
    return qkv.recording.append(op, (qkv, decay, beta, state, slots, positions), qkv.axis, (heads, value_dim))
