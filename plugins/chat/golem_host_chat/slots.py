"""What each slot remembers, which slot a prompt takes, and from where it may go on. Integers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SHARED_TENTH = 10
"""A slot is taken for its prefix when it shares at least one token in this many of the prompt (decisions.md C10)."""
COPY_GAIN = 64
"""Another slot's prefix is copied when it saves reading at least this many positions."""


@dataclass
class Slot:
    """One conversation's place in the caches.

    `tokens` are those whose keys and values are written, from position 0. `high_water` is the highest position written
    since the slot was empty (-1: none): in a ring cache it has overwritten every position `cells` or more below it.
    """

    index: int
    tokens: list[int] = field(default_factory=list)
    high_water: int = -1
    busy: bool = False
    last_used: float = float("-inf")

    def forget(self) -> None:
        self.tokens = []
        self.high_water = -1

    def wrote(self, tokens: Sequence[int]) -> None:
        """These tokens follow in the caches."""
        self.tokens += tokens
        self.high_water = max(self.high_water, len(self.tokens) - 1)


@dataclass(frozen=True)
class Ring:
    """A sliding layer's cache: `window` positions are seen, `cells` are kept."""

    window: int
    cells: int


@dataclass(frozen=True)
class Choice:
    """The slot a prompt takes, how many of its tokens it may keep, and the slot to copy them from, if another."""

    slot: Slot
    keep: int
    copy_from: Slot | None = None


def shared_prefix(held: Sequence[int], prompt: Sequence[int]) -> int:
    """How many leading tokens are the same."""
    for at, (one, other) in enumerate(zip(held, prompt, strict=False)):
        if one != other:
            return at
    return min(len(held), len(prompt))


def resumable(slot: Slot, shared: int, rings: Sequence[Ring], *, recurrent: bool = False) -> int:
    """Where a prompt sharing `shared` tokens may go on: there, if every position in each window is still intact, else
    0.

    An earlier position would need even older cells, so there is nothing between the two. `recurrent`: there are states,
    which have only the position after the last token held.
    """
    if recurrent and shared != len(slot.tokens):
        return 0
    for ring in rings:
        oldest_needed = max(0, shared - ring.window + 1)
        oldest_intact = max(0, slot.high_water - ring.cells + 1)
        if oldest_needed < oldest_intact:
            return 0
    return shared


def choose_slot(
    slots: Sequence[Slot], prompt: Sequence[int], rings: Sequence[Ring], *, reuse: bool, recurrent: bool = False
) -> Choice | None:
    """The slot for a prompt, or None when all are busy.

    The free slot sharing the longest prefix, if that is a tenth of the prompt or more; else an empty one; else the one
    used longest ago. The last token of a prompt is always read again: its logits are not kept.
    """
    free = [slot for slot in slots if not slot.busy]
    if not free:
        return None

    def kept(slot: Slot) -> int:
        if not reuse:
            return 0
        shared = min(shared_prefix(slot.tokens, prompt), len(prompt) - 1)
        return resumable(slot, shared, rings, recurrent=recurrent)

    best = max(free, key=kept)
    if not kept(best) or kept(best) * SHARED_TENTH < len(prompt):
        empty = [slot for slot in free if not slot.tokens]
        best = empty[0] if empty else min(free, key=lambda slot: slot.last_used)
    donor = max(slots, key=kept)
    if donor is not best and kept(donor) - kept(best) >= COPY_GAIN:
        return Choice(best, kept(donor), donor)
    return Choice(best, kept(best))
