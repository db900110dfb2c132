"""Attention over slot caches: each row of a pass belongs to a slot and a position, and sees its own slot's past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from golem_host.ops.recording import Ref

if TYPE_CHECKING:
    import torch


class Cache(Protocol):
    """Keys and values of one layer for every slot, allocated by a backend.

    A position lives in cell `position % cells`; with a sliding window there are fewer cells than positions. `keys` and
    `values` are float16 (slots, kv_heads, cells, head_dim), on the CPU as numpy arrays.
    """

    slots: int
    cells: int
    kv_heads: int
    key_dim: int
    value_dim: int

    @property
    def keys(self) -> Any: ...

    @property
    def values(self) -> Any: ...


@dataclass(frozen=True)
class CacheStore:
    """Write this pass's keys and values into the cache, rounded to half precision."""

    def twin(
        self, cache: Cache, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor
    ) -> None:
        import torch

        keys, values = torch.from_numpy(cache.keys), torch.from_numpy(cache.values)
        for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
            if not 0 <= slot < cache.slots or position < 0:
                raise IndexError(f"slot {slot}, position {position} is outside the cache")
            keys[slot, :, position % cache.cells] = k[row].view(cache.kv_heads, cache.key_dim).half()
            values[slot, :, position % cache.cells] = v[row].view(cache.kv_heads, cache.value_dim).half()


def cache_store(cache: Cache, k: Ref, v: Ref, slots: Ref, positions: Ref) -> None:
    """Store `k` (rows, kv_heads, key_dim), `v` (rows, kv_heads, value_dim) at int32 `slots`, `positions` (rows,)."""
    k.recording.append_effect(CacheStore(), (cache, k, v, slots, positions))


@dataclass(frozen=True)
class Attention:
    """softmax(scale * q.k) v over the row's own slot, positions (pos - window, pos]; window 0 sees all.

    Query head h reads kv head h // (heads / kv_heads) (Ainslie et al. 2023). Queries and softmaxed weights are rounded
    to half precision, as ggml does without flash attention, so that answers stay comparable.
    """

    scale: float
    window: int
    softcap: float

    def twin(self, q: torch.Tensor, cache: Cache, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        import torch

        keys, values = torch.from_numpy(cache.keys), torch.from_numpy(cache.values)
        out = torch.empty(*q.shape[:2], cache.value_dim)
        for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
            first = max(0, position + 1 - self.window) if self.window else 0
            cells = torch.arange(first, position + 1) % cache.cells
            k, v = keys[slot][:, cells].float(), values[slot][:, cells].float()
            grouped = q[row].half().float().view(cache.kv_heads, -1, cache.key_dim)
            scores = self.scale * (grouped @ k.transpose(1, 2))
            if self.softcap:
                scores = self.softcap * torch.tanh(scores / self.softcap)
            out[row] = (torch.softmax(scores, -1).half().float() @ v).view(-1, cache.value_dim)
        return out


def attention(
    q: Ref, cache: Cache, slots: Ref, positions: Ref, *, scale: float, window: int = 0, softcap: float = 0.0
) -> Ref:
    """(rows, heads, value_dim) from `q` (rows, heads, key_dim), after this pass's `cache_store`.

    int32 `slots` and `positions` (rows,) say whose past each row sees; rows of one prompt see each other through the
    cache.
    """
    heads = q.shape[0]
    if heads % cache.kv_heads:
        raise ValueError(f"{heads} query heads do not divide into {cache.kv_heads} key heads")
    op = Attention(scale, window, softcap)
    return q.recording.append(op, (q, cache, slots, positions), q.axis, (heads, cache.value_dim))
