"""Continuous batching: every pass reads a chunk of the prompts that wait and draws a token for all that are read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from golem_host.errors import BadRequest, ContextExceeded, DeviceFailed
from golem_host.lanes.job import Job
from golem_host.lanes.lane import PASS_SECONDS, pass_failed
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.checkpoints import plan_checkpoints
from golem_host_chat.conversation import Conversation
from golem_host_chat.counts import Counts
from golem_host_chat.generation import Generation
from golem_host_chat.passes import Columns, Passes
from golem_host_chat.prompt_cache import Entry, PromptCache
from golem_host_chat.slot_actions import SlotAction
from golem_host_chat.slot_report import SlotReport
from golem_host_chat.slots import Choice, Slot, choose_slot

log = logging.getLogger("golem_host.chat")

MIN_CHUNK = 16
"""Prompt columns a pass carries at least, however slow the model."""


@dataclass(slots=True)
class Carried:
    """What went into a pass: the slots that drew, then those whose prompts were read, with how many tokens."""

    drew: list[int] = field(default_factory=list)
    read: list[tuple[int, int]] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"slot {slot} draws" for slot in self.drew] + [
            f"slot {slot} reads {count}" for slot, count in self.read
        ]
        return f"{', '.join(parts)}; {len(self.drew) + sum(count for _, count in self.read)} columns"


class ChatStepper:
    """The seats of a chat lane: one slot each, and what slots are asked for between passes. Runs on the device thread.

    `cache_ttl` seconds after its last use a slot's tokens are forgotten; 0 never. A slot keeps `checkpoints` copies of
    what its model forgets. Conversations that lose their slot are kept in `cache_bytes` of memory; None: without limit.
    `counts` is told what is done.
    """

    def __init__(
        self,
        passes: Passes,
        tokenizer: Tokenizer,
        *,
        cache_ttl: float = 0.0,
        checkpoints: int = 4,
        cache_bytes: int | None = 0,
        counts: Counts | None = None,
    ) -> None:
        self.passes = passes
        self._tokenizer = tokenizer
        self._vocab_size = passes.vocab_size
        self._cache_ttl = cache_ttl
        self._memory = passes.memory
        self._checkpoints = checkpoints if self._memory.layout.forgets else 0
        self._prompts = PromptCache(self._memory, cache_bytes)
        self._slots = [Slot(index=index) for index in range(passes.slots)]
        self._conversations: list[Conversation] = []
        self._actions: list[Job[SlotAction]] = []
        self._reports: dict[int, SlotReport] = {}
        self._counts = counts or Counts()
        self._chunk = 64
        """Prompt columns of a pass of `PASS_SECONDS`: follows the speed seen."""
        self.pass_seconds: Callable[[], float] = lambda: PASS_SECONDS
        """How long the next pass may take."""

    def admit(self, job: Job[Any]) -> bool | None:
        if isinstance(job.request, SlotAction):
            self._actions.append(job)  # others need not wait until its slot is free
            return True
        request: Generation = job.request
        if any(c.job.id == request.follows and c.reading for c in self._conversations):
            return False
        self._expire()
        choice = choose_slot(
            self._slots,
            request.prompt,
            self._memory.layout,
            reuse=request.reuse,
            others=self._prompts.entries,
            only=request.extras.slot,
        )
        if choice is None:
            return None if request.extras.slot is not None else False
        self._check(request)  # not before: one that waits is asked before every pass
        slot, keep = choice.slot, choice.start.keep
        try:
            self._prepare(choice)
            marks = self._plan(choice, request)
            conversation = Conversation(
                job,
                slot,
                keep,
                marks=marks,
                tokenizer=self._tokenizer,
                context=self.passes.context,
                vocab_size=self._vocab_size,
            )
            if conversation.at_mark:
                self._checkpoint(slot)
        except BaseException:
            slot.forget()  # it may be half one conversation, half another
            raise
        slot.busy = True
        self._conversations.append(conversation)
        return True

    def step(self) -> Carried:
        self._act()
        if not self._conversations:
            return Carried()
        columns, fed, carried = self._gather()
        started = time.monotonic()
        scores = self.passes.run(columns)
        self._adapt(len(columns.tokens), time.monotonic() - started)
        self._counts.passed(len(self._conversations))
        drawing: list[Conversation] = []
        for conversation, tokens in fed:
            conversation.fed(tokens)
            if conversation.at_mark:
                self._checkpoint(conversation.slot)
            if not conversation.reading:
                drawing.append(conversation)
        # What is told wakes the event loop: not before all have drawn, or it would run in between.
        for row, conversation in enumerate(drawing):
            if conversation.job.end is None:
                try:
                    conversation.draw(scores, row)
                except Exception as error:
                    self._fail(conversation, error)
        for conversation in drawing:
            if conversation.job.end is None:
                try:
                    conversation.tell()
                except Exception as error:
                    self._fail(conversation, error)
            if conversation.job.end is not None:
                self._leave(conversation)
        self._act()  # before another conversation takes the slot
        return carried

    def release(self, job: Job[Any]) -> None:
        self._actions = [action for action in self._actions if action is not job]
        for conversation in [c for c in self._conversations if c.job is job]:
            self._leave(conversation)
        self._act()

    def recover(self) -> None:
        self._actions.clear()
        for conversation in list(self._conversations):
            conversation.slot.forget()
            self._leave(conversation)

    def clear(self) -> None:
        """Let go of everything kept of conversations, whoever still holds this object."""
        self._prompts.clear()
        for slot in self._slots:
            slot.forget()

    def reports(self) -> list[SlotReport]:
        """What each slot does, or did last."""
        current = {each.slot.index: each.report() for each in self._conversations}
        return [current.get(slot.index) or self._idle(slot) for slot in self._slots]

    def _idle(self, slot: Slot) -> SlotReport:
        last = self._reports.get(slot.index, SlotReport(slot.index))
        return replace(last, tokens=len(slot.tokens), processing=False)

    def _act(self) -> None:
        """Do what free slots are asked for."""
        for job in list(self._actions):
            slot = self._slots[job.request.slot]
            if slot.busy:
                continue
            self._actions.remove(job)
            try:
                job.finish(job.request.act(slot, self._memory))
            except DeviceFailed:
                raise
            except Exception as error:
                log.exception("slot %d could not do what it was asked for", slot.index)
                job.fail(pass_failed(error))

    def _prepare(self, choice: Choice) -> None:
        """Make the slot remember what its new conversation starts from. What it held is kept elsewhere if most of it
        would be lost.
        """
        slot, start = choice.slot, choice.start
        source = start.held
        if 2 * (start.keep if source is slot else 0) < len(slot.tokens):
            self._prompts.add(slot)
        if not start.keep:
            slot.forget()
            return
        if source is not slot:
            if isinstance(source, Entry):
                self._memory.restore(slot.index, source.whole, start.keep)
                if start.shared == len(source.tokens):
                    self._prompts.remove(source)  # the slot goes on with all of it
            elif isinstance(source, Slot):
                self._memory.copy_slot(source.index, slot.index)
            slot.become(source)
        if start.copy is not None:
            self._memory.restore(slot.index, start.copy)
        slot.rewind(start)

    def _plan(self, choice: Choice, request: Generation) -> tuple[int, ...]:
        """The positions where checkpoints are to be made; those the slot has and will not keep are let go of."""
        slot, length = choice.slot, len(request.prompt)
        points = [choice.parted]
        if request.followed and self._memory.layout.recurrent:
            points.append(length - 1)
        kept = [copy.position for copy in slot.copies]
        planned = plan_checkpoints(kept, start=choice.start.keep, length=length, points=points, most=self._checkpoints)
        slot.copies = [copy for copy in slot.copies if copy.position in planned]
        return tuple(position for position in planned if position not in kept)

    def _checkpoint(self, slot: Slot) -> None:
        """Make one, if there is memory for it."""
        try:
            slot.copies.append(self._memory.checkpoint(slot))
        except MemoryError:
            log.warning("no memory for a checkpoint of slot %d", slot.index)

    def _check(self, request: Generation) -> None:
        if not request.prompt:
            raise BadRequest("the prompt has no tokens")
        if len(request.prompt) >= self.passes.context:
            raise ContextExceeded(len(request.prompt), self.passes.context)
        if min(request.prompt) < 0 or max(request.prompt) >= self._vocab_size:
            raise BadRequest(f"the prompt holds token ids outside the vocabulary of {self._vocab_size}")

    def _expire(self) -> None:
        if self._cache_ttl:
            oldest = time.monotonic() - self._cache_ttl
            for slot in self._slots:
                if not slot.busy and slot.last_used < oldest:
                    slot.forget()
            self._prompts.expire(oldest)

    def _gather(self) -> tuple[Columns, list[tuple[Conversation, list[int]]], Carried]:
        """The next pass: a token of every conversation that draws, then prompts in the order they came."""
        columns, carried = Columns(), Carried()
        fed: list[tuple[Conversation, list[int]]] = []
        reading: list[Conversation] = []
        for conversation in self._conversations:
            if conversation.unread:
                reading.append(conversation)
                continue
            tokens = conversation.next_tokens(1)
            columns.add(conversation.slot.index, len(conversation.slot.tokens), tokens, output=True)
            fed.append((conversation, tokens))
            carried.drew.append(conversation.slot.index)
        room = min(self._room(), self.passes.widest - len(columns.tokens))
        for conversation in reading:
            if room <= 0:
                break
            tokens = conversation.next_tokens(room)
            last = len(tokens) == len(conversation.unread)
            columns.add(conversation.slot.index, len(conversation.slot.tokens), tokens, output=last)
            fed.append((conversation, tokens))
            carried.read.append((conversation.slot.index, len(tokens)))
            room -= len(tokens)
        return columns, fed, carried

    def _room(self) -> int:
        """Prompt columns of the next pass."""
        return max(min(MIN_CHUNK, self._chunk), int(self._chunk * self.pass_seconds() / PASS_SECONDS))

    def _adapt(self, width: int, seconds: float) -> None:
        """Let the next pass be as wide as fits its time: twice as wide at most, a power of two."""
        if width < self._room():
            return
        fitting = width * PASS_SECONDS / seconds if seconds else self.passes.widest
        wanted = max(MIN_CHUNK, min(fitting, 2 * self._chunk, self.passes.widest))
        self._chunk = 1 << (int(wanted).bit_length() - 1)

    def _fail(self, conversation: Conversation, error: Exception) -> None:
        """What goes wrong for one conversation is its own affair. Called while the error is handled."""
        if not isinstance(error, BadRequest):  # which is the caller's doing
            log.exception("drawing for one request failed")
        conversation.job.fail(pass_failed(error))
        conversation.slot.forget()

    def _leave(self, conversation: Conversation) -> None:
        self._counts.ended(conversation.timings(), len(conversation.slot.tokens))
        self._reports[conversation.slot.index] = conversation.report()
        conversation.slot.busy = False
        conversation.slot.last_used = time.monotonic()
        self._conversations.remove(conversation)
