"""What every family gives the engine: its hyper-parameters read and checked, its caches, and its forward pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from golem_host.ops import Cache, Ref, State
from golem_host.weights.gguf import Gguf


@dataclass(frozen=True)
class CacheSpec:
    """What one layer remembers of each position. `window` 0 keeps the whole context, else that many positions."""

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int = 0


@dataclass(frozen=True)
class StateSpec:
    """One recurrent state of a layer: float32 `shape` for every slot, whatever the number of positions."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """The columns of a pass, each a token of some conversation.

    int32 `tokens`, `positions`, `slots` (columns,); `outputs` (outputs,) are the columns whose logits are wanted.
    `caches` are in the order of `Family.caches`, `states` in that of `Family.states`.
    """

    tokens: Ref
    positions: Ref
    slots: Ref
    outputs: Ref
    caches: Sequence[Cache]
    states: Sequence[State]


class Family(ABC):
    """One model family. Made from a file, it raises `GgufError` for anything in it that it does not understand."""

    architecture: ClassVar[str]
    """`general.architecture` of its files."""

    context_length: int
    """Positions the checkpoint was trained for."""
    embedding_length: int
    vocab_size: int

    @abstractmethod
    def __init__(self, gguf: Gguf) -> None: ...

    @abstractmethod
    def caches(self) -> list[CacheSpec]:
        """One entry for every layer that has keys and values."""

    def states(self) -> list[StateSpec]:
        """One entry for every recurrent state of every layer that has them: none, if not said otherwise."""
        return []

    @abstractmethod
    def forward(self, batch: Batch) -> Ref:
        """Record the pass; float32 logits (outputs, vocab_size)."""
