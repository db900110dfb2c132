"""What each slot remembers, which slot a prompt takes, and from where it may go on. Integers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from golem_host_chat.memory import SlotCopy

SHARED_TENTH = 10
"""A slot is taken for its prefix when it shares at least one token in this many of the prompt (decisions.md C10)."""
COPY_GAIN = 64
"""What another slot, or the prompt cache, holds is copied when it saves reading at least this many positions."""


@dataclass(frozen=True)
class Ring:
    """A sliding layer's cache: `window` positions are seen, `cells` are kept, fewer than a slot has positions."""

    window: int
    cells: int


@dataclass(frozen=True)
class Layout:
    """What of a model keeps a slot from going on wherever its tokens are shared: rings, and recurrent states, which
    have no past but their checkpoints'.
    """

    rings: tuple[Ring, ...] = ()
    recurrent: bool = False

    @property
    def forgets(self) -> bool:
        """Whether there is anything of that kind."""
        return self.recurrent or bool(self.rings)


@dataclass(kw_only=True)
class Held:
    """What is remembered of a conversation.

    `tokens` are those whose keys and values are written, from position 0. `high_water` is the highest position written
    since it was empty (-1: none): in a ring cache it has overwritten every position `cells` or more below it. Rings
    were last put back from a copy at position `restored`, windows only. `copies` are checkpoints along the tokens, by
    their positions.
    """

    tokens: list[int] = field(default_factory=list)
    high_water: int = -1
    restored: int = 0
    copies: list[SlotCopy] = field(default_factory=list)

    def forget(self) -> None:
        self.tokens, self.copies = [], []
        self.high_water, self.restored = -1, 0

    def wrote(self, tokens: Sequence[int]) -> None:
        """These tokens follow in the caches."""
        self.tokens += tokens
        self.high_water = max(self.high_water, len(self.tokens) - 1)

    def become(self, other: Held) -> None:
        """The caches now hold what those of `other` held."""
        self.tokens, self.copies = list(other.tokens), list(other.copies)
        self.high_water, self.restored = other.high_water, other.restored

    def rewind(self, start: Start) -> None:
        """What follows, follows there: the caches have been put back from the start's copy, if it has one."""
        self.tokens = self.tokens[: start.keep]
        self.copies = [copy for copy in self.copies if copy.position <= start.keep]
        if start.copy is not None:
            self.high_water, self.restored = start.keep - 1, start.keep

    def intact(self, ring: Ring) -> int:
        """The lowest position that a ring still has."""
        return max(0, self.high_water - ring.cells + 1, self.restored - ring.window + 1)


@dataclass(kw_only=True)
class Slot(Held):
    """One conversation's place in the caches."""

    index: int
    busy: bool = False
    last_used: float = float("-inf")


@dataclass(frozen=True)
class Start:
    """From where a prompt goes on: `held` has its first `shared` tokens, and `keep` of them can be kept, after `copy`
    was put back if there is one.
    """

    held: Held
    shared: int = 0
    keep: int = 0
    copy: SlotCopy | None = None


@dataclass(frozen=True)
class Choice:
    """The slot a prompt takes and where it starts, maybe from what another holds. `parted` is the longest prefix that
    anything held had in common with it, whether it could be kept or not.
    """

    slot: Slot
    start: Start
    parted: int


def shared_prefix(held: Sequence[int], prompt: Sequence[int], *, block: int = 256) -> int:
    """How many leading tokens are the same."""
    most = min(len(held), len(prompt))
    same = 0
    while same < most and held[same : same + block] == prompt[same : same + block]:
        same += block
    while same < most and held[same] == prompt[same]:
        same += 1
    return min(same, most)


def resumable(held: Held, shared: int, layout: Layout) -> Start:
    """Where a prompt sharing `shared` tokens may go on: there, if every position in each window is still intact and
    states are there, else at the latest checkpoint before, else at 0.

    An earlier position would need even older cells, so without a copy there is nothing between.
    """
    there = not layout.recurrent or shared == len(held.tokens)
    if there and all(max(0, shared - ring.window + 1) >= held.intact(ring) for ring in layout.rings):
        return Start(held, shared, shared)
    for copy in reversed(held.copies):
        if copy.position <= shared:
            return Start(held, shared, copy.position, copy)
    return Start(held, shared)


def choose_slot(
    slots: Sequence[Slot],
    prompt: Sequence[int],
    layout: Layout,
    *,
    reuse: bool,
    others: Sequence[Held] = (),
    only: int | None = None,
) -> Choice | None:
    """The slot for a prompt, or None when all are busy; `others` are conversations kept elsewhere. `only` this slot may
    be taken, where one is named.

    The free slot that saves most, if that is a tenth of the prompt or more; else an empty one; else the one used
    longest ago. The last token of a prompt is always read again: its logits are not kept.
    """
    free = [slot for slot in slots if not slot.busy and only in (None, slot.index)]
    if not free:
        return None
    spare = min(free, key=lambda slot: (bool(slot.tokens), slot.last_used if slot.tokens else 0))
    if not reuse:
        return Choice(spare, Start(spare), 0)
    starts = [
        resumable(held, min(shared_prefix(held.tokens, prompt), len(prompt) - 1), layout) for held in (*slots, *others)
    ]
    parted = max(start.shared for start in starts)
    own = dict(zip((slot.index for slot in slots), starts, strict=False))
    best = max(free, key=lambda slot: own[slot.index].keep)
    if own[best.index].keep * SHARED_TENTH < len(prompt):
        best = spare
    most = max(starts, key=lambda start: start.keep)
    if most.keep - own[best.index].keep >= COPY_GAIN:
        return Choice(spare, most, parted)
    return Choice(best, own[best.index], parted)
