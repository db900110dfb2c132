"""What a slot can be asked for beside answers: a copy of what it remembers, to take one, to forget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from golem_host_chat.memory import SlotCopy, SlotMemory
from golem_host_chat.slots import Held, Slot


@dataclass(frozen=True)
class SlotAction:
    """A job's request: `act` on slot number `slot` between two passes, when no conversation has it. What it returns is
    the job's result.
    """

    slot: int
    act: Callable[[Slot, SlotMemory], Any]


@dataclass(kw_only=True)
class Saved(Held):
    """A conversation and a copy of all that its slot remembered of it."""

    whole: SlotCopy

    def copies_in_order(self) -> list[SlotCopy]:
        """The whole, then the checkpoints."""
        return [self.whole, *self.copies]


def copied(slot: Slot, memory: SlotMemory) -> Saved:
    """A copy of what the slot remembers."""
    saved = Saved(whole=memory.copy_whole(slot))
    saved.become(slot)
    return saved


def put(saved: Saved) -> Callable[[Slot, SlotMemory], None]:
    """Make the slot remember this instead of what it does."""

    def act(slot: Slot, memory: SlotMemory) -> None:
        slot.forget()
        memory.restore(slot.index, saved.whole)
        slot.become(saved)
        slot.last_used = time.monotonic()

    return act


def erased(slot: Slot, memory: SlotMemory) -> int:
    """Make the slot forget; how many tokens it held."""
    count = len(slot.tokens)
    slot.forget()
    return count
