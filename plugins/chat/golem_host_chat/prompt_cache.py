"""Conversations that left their slot to another, kept in the host's memory up to a limit."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from golem_host.memory import available_bytes
from golem_host_chat.memory import SlotCopy, SlotMemory
from golem_host_chat.slots import COPY_GAIN, Held, Slot, shared_prefix

log = logging.getLogger("golem_host.chat")


@dataclass(kw_only=True)
class Entry(Held):
    """A conversation and a copy of all that its slot remembered of it, used last at `last_used`."""

    whole: SlotCopy
    last_used: float

    @property
    def nbytes(self) -> int:
        return self.whole.nbytes + sum(copy.nbytes for copy in self.copies)


class PromptCache:
    """`entries`, the oldest first, of one model, of at most `limit` bytes in all; None: without limit.

    Runs on the device thread.
    """

    def __init__(self, memory: SlotMemory, limit: int | None) -> None:
        self._memory = memory
        self._limit = limit
        self.entries: list[Entry] = []

    def add(self, slot: Slot) -> None:
        """Keep what a slot remembers, in place of the oldest entries where there is no room.

        Entries that are a part of it go; nothing is copied when an entry has all of it already, when it is too short to
        be worth it, or larger than the limit or half of the memory that is free.
        """
        if self._limit == 0 or len(slot.tokens) < COPY_GAIN or not self._fits(slot):
            return
        for entry in list(self.entries):
            shared = shared_prefix(entry.tokens, slot.tokens)
            if shared == len(slot.tokens):
                self.entries.remove(entry)
                self.entries.append(entry)
                entry.last_used = slot.last_used
                return
            if shared == len(entry.tokens):
                self.entries.remove(entry)
        self._make_room(self._least_bytes(slot))
        try:
            entry = Entry(whole=self._memory.copy_whole(slot), last_used=slot.last_used)
        except MemoryError:
            log.warning("no memory to keep the conversation of slot %d", slot.index)
            return
        entry.become(slot)
        self.entries.append(entry)
        self._make_room(0)

    def remove(self, entry: Entry) -> None:
        """Let an entry go, if it is still there."""
        self.entries = [each for each in self.entries if each is not entry]

    def expire(self, oldest: float) -> None:
        """Let go of what was last used before `oldest`."""
        self.entries = [entry for entry in self.entries if entry.last_used >= oldest]

    def clear(self) -> None:
        self.entries.clear()

    def _least_bytes(self, slot: Slot) -> int:
        return self._memory.whole_bytes(len(slot.tokens)) + sum(copy.nbytes for copy in slot.copies)

    def _fits(self, slot: Slot) -> bool:
        free, wanted = available_bytes(), self._least_bytes(slot)
        return (self._limit is None or wanted <= self._limit) and (free is None or 2 * wanted <= free)

    def _make_room(self, wanted: int) -> None:
        """Let the oldest entries go until so many bytes fit beside the others."""
        if self._limit is not None:
            held = sum(entry.nbytes for entry in self.entries)
            while self.entries and held + wanted > self._limit:
                held -= self.entries.pop(0).nbytes
