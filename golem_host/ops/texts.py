"""Texts that lie one after the other in a pass, without padding: attention within each, and the mean of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TextAttention:
    """softmax(scale * q.k) v over the rows of the row's own text, in float32: all, or `window` before and after."""

    scale: float
    window: int = 0

    def twin(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        import torch

        out = torch.empty_like(q)
        ends = np.append(np.flatnonzero(np.diff(texts.numpy())) + 1, len(q))
        first = 0
        for end in ends.tolist():
            one = slice(first, end)
            queries, keys, values = (each[one].transpose(0, 1).contiguous() for each in (q, k, v))
            scores = self.scale * (queries @ keys.transpose(1, 2))
            if self.window:
                at = torch.arange(end - first)
                scores = scores.masked_fill((at - at[:, None]).abs() > self.window, -torch.inf)
            weights = torch.softmax(scores, -1)
            out[one] = (weights @ values).transpose(0, 1)
            first = end
        return out


def text_attention(q: Ref, k: Ref, v: Ref, texts: Ref, *, scale: float, window: int = 0) -> Ref:
    """(rows, heads, dim) from `q`, `k`, `v` (rows, heads, dim): each row sees every row of its text, before and after,
    or with a `window` those at most so many rows from it.

    int32 `texts` (rows,): neighbouring rows with the same number are a text.
    """
    if window < 0:
        raise ValueError(f"a window of {window} rows")
    if len(q.shape) != 2 or not q.shape == k.shape == v.shape:
        raise ValueError(f"queries, keys and values of shapes {q.shape}, {k.shape} and {v.shape}")
    return q.recording.append(TextAttention(scale, window), (q, k, v, texts), q.axis, q.shape)


@dataclass(frozen=True)
class Mean:
    """Mean of consecutive rows, summed in their order."""

    def twin(self, x: torch.Tensor, first: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        import torch

        out = torch.empty(len(first), *x.shape[1:])
        for row, (at, n) in enumerate(zip(first.tolist(), count.tolist(), strict=True)):
            if at < 0 or n < 1 or at + n > len(x):
                raise IndexError(f"the mean of rows {at} to {at + n} of {len(x)}")
            total = x[at].clone()
            for each in x[at + 1 : at + n]:
                total += each
            out[row] = total * float(np.float32(1) / np.float32(n))
        return out


def mean(x: Ref, first: Ref, count: Ref) -> Ref:
    """Means of rows first .. first + count of `x` (rows, *shape): (m, *shape) on the axis of int32 `first` (m,) and
    `count` (m,). Rows that are not there, or no rows, fail the pass.
    """
    return x.recording.append(Mean(), (x, first, count), first.axis, x.shape)
