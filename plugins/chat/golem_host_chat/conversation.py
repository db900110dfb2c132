"""One answer being drawn: what was read and drawn so far, the text that may leave, and when it is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from golem_host.lanes.job import Job
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.answer_text import AnswerText
from golem_host_chat.generation import Completion, Delta, Generation, Progress, Timings
from golem_host_chat.sampling import Sampler
from golem_host_chat.scores import Scores
from golem_host_chat.slot_report import SlotReport
from golem_host_chat.slots import Slot
from golem_host_chat.thought_budget import ThoughtCount


class Conversation:
    """A seated job. `unread` tokens of its prompt are still to be read; afterwards the last token drawn is fed each
    pass. `marks` are the positions where passes end, so that a checkpoint can be made there.
    """

    def __init__(
        self,
        job: Job[Generation],
        slot: Slot,
        keep: int,
        *,
        marks: Sequence[int] = (),
        tokenizer: Tokenizer,
        context: int,
        vocab_size: int,
    ) -> None:
        request = job.request
        self.job = job
        self.slot = slot
        self.cached = keep
        self.unread = request.prompt[keep:]
        self._marks = set(marks)
        self._tokenizer = tokenizer
        self._room = context - len(request.prompt)
        self._limit = self._room if request.max_tokens is None else min(self._room, request.max_tokens)
        self._sampler = Sampler(
            request.params,
            vocab_size=vocab_size,
            suppress=tokenizer.vocab.suppressed,
            prompt=request.prompt,
            wanted=request.extras.probs,
        )
        self._thoughts = None if request.thoughts is None else ThoughtCount(request.thoughts)
        self._constrained = None if request.constraint is None else request.constraint.begin()
        self._answer = AnswerText(request, self._limit)
        self._token: int | None = None
        """Drawn last, if that has not been told yet."""
        self._seated = time.monotonic()
        self._first_logits: float | None = None
        self._report()

    @property
    def at_mark(self) -> bool:
        """Whether a checkpoint is to be made now."""
        return len(self.slot.tokens) in self._marks

    @property
    def reading(self) -> bool:
        return bool(self.unread)

    def next_tokens(self, most: int) -> list[int]:
        """What this conversation puts into the next pass: up to `most` tokens of its prompt, or the token drawn
        last.
        """
        if not self.unread:
            return [self._answer.drawn[-1]]
        at = len(self.slot.tokens)
        ahead = [mark - at for mark in self._marks if mark > at]
        return self.unread[: min([most, *ahead])]

    def fed(self, tokens: list[int]) -> None:
        """These tokens were part of a pass that succeeded."""
        self.slot.wrote(tokens)
        if self.unread:
            self.unread = self.unread[len(tokens) :]
            self._report()

    def draw(self, scores: Scores, row: int) -> None:
        """Draw one token from a row of `scores`, if the answer may have one."""
        if self._first_logits is None:
            self._first_logits = time.monotonic()
        if self._limit > 0:
            forced = None if self._thoughts is None else self._thoughts.forced()
            mask = None if self._constrained is None else self._constrained.allowed()
            self._token = self._sampler.sample(scores, row, forced=forced, mask=mask)
            self._sampler.accept(self._token)
            if self._thoughts is not None:
                self._thoughts.accept(self._token, self._tokenizer.piece(self._token, special=True))
            if self._constrained is not None:
                self._constrained.accept(self._token)

    def tell(self) -> None:
        """Send what may leave of the token drawn last; end the job when the answer is over."""
        token, self._token = self._token, None
        if token is None:
            self._end("length")
            return
        ends = token in self._tokenizer.vocab.end_of_generation
        piece = None if ends else self._tokenizer.piece(token, special=token in self.job.request.preserve)
        whole = self._constrained is not None and self._constrained.finished
        passed = (time.monotonic() - (self._first_logits or 0.0)) * 1e3
        delta = self._answer.push(token, piece, self._sampler.likelihood, whole=whole, milliseconds=passed)
        if delta is not None:
            self.job.emit(self._laden(delta))
        if self._answer.finish is not None:
            self._end(self._answer.finish)

    def _laden(self, delta: Delta) -> Delta:
        """`delta` with what else it is to carry."""
        extras = self.job.request.extras
        if not (extras.timed or extras.ids):
            return delta
        return replace(delta, timings=self.timings() if extras.timed else None, slot=self.slot.index)

    def _report(self) -> None:
        """Tell how much of the prompt has been read, if that is wanted."""
        if self.job.request.extras.progress:
            total = len(self.job.request.prompt)
            passed = (time.monotonic() - self._seated) * 1e3
            self.job.emit(Progress(total, self.cached, total - len(self.unread), passed, self.slot.index))

    def _end(self, finish: str) -> None:
        answer = self._answer
        self.job.finish(
            Completion(
                text=answer.text,
                finish=finish,
                stop_word=answer.stop_word,
                prompt_tokens=len(self.job.request.prompt),
                cached_tokens=self.cached,
                completion_tokens=len(answer.drawn),
                slot=self.slot.index,
                tokens=list(answer.drawn),
                timings=self.timings(),
                probabilities=tuple(answer.told),
                truncated=finish == "length" and len(answer.drawn) >= self._room,
            )
        )

    def report(self) -> SlotReport:
        """What its slot does for it."""
        request = self.job.request
        return SlotReport(
            slot=self.slot.index,
            processing=True,
            job=self.job.id,
            tokens=len(self.slot.tokens),
            read=len(request.prompt) - self.cached - len(self.unread),
            cached=self.cached,
            drawn=len(self._answer.drawn),
            left=max(0, self._limit - len(self._answer.drawn)),
            has_new_line="\n" in self._answer.text,
            params=request.params,
            max_tokens=request.max_tokens,
        )

    def timings(self) -> Timings:
        """What it has taken so far."""
        now = time.monotonic()
        first = self._first_logits or now
        return Timings(
            waited_ms=((self.job.started or self._seated) - self.job.created) * 1e3,
            prompt_n=len(self.job.request.prompt) - self.cached - len(self.unread),
            prompt_ms=(first - self._seated) * 1e3,
            cache_n=self.cached,
            predicted_n=len(self._answer.drawn),
            predicted_ms=(now - first) * 1e3,
        )
