"""Attention over slot caches: each row of a pass belongs to a slot and a position, and sees its own slot's past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from golem_host.ops.activations import round_as_product_wants
from golem_host.ops.recording import Ref
from golem_host.ops.slot_cache import Cache, CacheType
from golem_host.weights.types import GgmlType

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CacheStore:
    """Write this pass's keys and values into the cache, rounded to its type."""

    def twin(
        self, cache: Cache, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor
    ) -> None:
        for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
            if not 0 <= slot < cache.slots or position < 0:
                raise IndexError(f"slot {slot}, position {position} is outside the cache")
            keys, values = k[row].view(cache.kv_heads, -1), v[row].view(cache.kv_heads, -1)
            cache.write(slot, position, keys.numpy(), values.numpy())


def cache_store(cache: Cache, k: Ref, v: Ref, slots: Ref, positions: Ref) -> None:
    """Store `k` (rows, kv_heads, key_dim), `v` (rows, kv_heads, value_dim) at int32 `slots`, `positions` (rows,)."""
    k.recording.append_effect(CacheStore(), (cache, k, v, slots, positions))


@dataclass(frozen=True)
class Attention:
    """softmax(scale * q.k) v over the row's own slot, positions (last - window, pos]; window 0 sees all.

    `last` is pos, or the last position of the block of `block` positions that it lies in.

    Query head h reads kv head h // (heads / kv_heads) (Ainslie et al. 2023). Rounding follows ggml, so that answers
    stay comparable. Over an f16 cache as without flash attention: queries and softmaxed weights are rounded to half
    precision. Over a q8_0 cache as with it, which ggml asks for then: queries are rounded to q8_0, weights are not.
    Over an f32 cache nothing is rounded.
    """

    scale: float
    window: int
    softcap: float
    block: int = 1

    def twin(self, q: torch.Tensor, cache: Cache, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        import torch

        half = cache.type is CacheType.F16
        rounding = {CacheType.F16: GgmlType.F16, CacheType.F32: GgmlType.F32, CacheType.Q8_0: GgmlType.Q8_0}[cache.type]
        out = torch.empty(*q.shape[:2], cache.value_dim)
        for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
            last = position // self.block * self.block + self.block - 1
            first = max(0, last + 1 - self.window) if self.window else 0
            k, v = map(torch.from_numpy, cache.read(slot, np.arange(first, position + 1)))
            rounded = round_as_product_wants(q[row], rounding)
            grouped = rounded.view(cache.kv_heads, -1, cache.key_dim)
            scores = self.scale * (grouped @ k.transpose(1, 2))
            if self.softcap:
                scores = self.softcap * torch.tanh(scores / self.softcap)
            weights = torch.softmax(scores, -1)
            out[row] = ((weights.half().float() if half else weights) @ v).view(-1, cache.value_dim)
        return out


def attention(
    q: Ref,
    cache: Cache,
    slots: Ref,
    positions: Ref,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    block: int = 1,
) -> Ref:
    """(rows, heads, value_dim) from `q` (rows, heads, key_dim), after this pass's `cache_store`.

    int32 `slots` and `positions` (rows,) say whose past each row sees; rows of one prompt see each other through the
    cache. With a `block` all positions of a block see as far back as its last: the windows of a stream that is cached
    in such pieces.
    """
    heads = q.shape[0]
    if heads % cache.kv_heads:
        raise ValueError(f"{heads} query heads do not divide into {cache.kv_heads} key heads")
    if block < 1:
        raise ValueError(f"blocks of {block} positions")
    op = Attention(scale, window, softcap, block)
    return q.recording.append(op, (q, cache, slots, positions), q.axis, (heads, cache.value_dim))
