"""Attention of every row over all rows, or over those up to its own, in float32 and without a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class FullAttention:
    """softmax(scale * q . k) v; query head h reads kv head h / (heads / kv heads).

    `coarse`: a device that multiplies bfloat16 faster may round queries, keys, values and softmaxed weights to it.
    """

    scale: float
    causal: bool
    coarse: bool = False

    def twin(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        each = q.shape[1] // k.shape[1]
        keys, values = (part.transpose(0, 1).contiguous().repeat_interleave(each, 0) for part in (k, v))
        out = torch.empty_like(q)
        for row in range(len(q)):  # one by one, so that none depends on how many there are
            seen = row + 1 if self.causal else len(k)
            scores = self.scale * (keys[:, :seen] @ q[row].unsqueeze(-1)).squeeze(-1)
            out[row] = (torch.softmax(scores, -1).unsqueeze(1) @ values[:, :seen]).squeeze(1)
        return out


def full_attention(q: Ref, k: Ref, v: Ref, *, scale: float, causal: bool = False, coarse: bool = False) -> Ref:
    """(rows, heads, dim) from `q` (rows, heads, dim) and `k`, `v` (keys, kv heads, dim), which may have an axis of
    their own. With `causal`, row i sees rows 0 .. i; `coarse` lets the device round to bfloat16 where that is faster.
    """
    if len(q.shape) != 2 or len(k.shape) != 2 or k.shape != v.shape or k.axis is not v.axis:
        raise ValueError(f"queries, keys and values of shapes {q.shape}, {k.shape} and {v.shape}")
    if q.shape[1] != k.shape[1] or q.shape[0] % k.shape[0]:
        raise ValueError(f"queries of shape {q.shape} for keys of shape {k.shape}")
    if causal and q.axis is not k.axis:
        raise ValueError("rows that see those before them are rows of the keys' axis")
    return q.recording.append(FullAttention(scale, causal, coarse), (q, k, v), q.axis, q.shape)
