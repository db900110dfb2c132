"""One answer being drawn: what was read and drawn so far, the text that may leave, and when it is over."""

from __future__ import annotations

import time
from collections.abc import Sequence

from golem_host.lanes.job import Job
from golem_host.text.stream import TextStream
from golem_host.text.tokenizer import Tokenizer
from golem_host_chat.generation import Completion, Delta, Generation, Timings
from golem_host_chat.sampling import Sampler
from golem_host_chat.scores import Scores
from golem_host_chat.slots import Slot


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
        self.drawn: list[int] = []
        self._tokenizer = tokenizer
        self._limit = context - len(request.prompt)
        if request.max_tokens is not None:
            self._limit = min(self._limit, request.max_tokens)
        self._sampler = Sampler(
            request.params, vocab_size=vocab_size, suppress=tokenizer.vocab.suppressed, prompt=request.prompt
        )
        self._stream = TextStream(request.stops)
        self._texts: list[str] = []
        self._seated = time.monotonic()
        self._first_logits: float | None = None

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
            return [self.drawn[-1]]
        at = len(self.slot.tokens)
        ahead = [mark - at for mark in self._marks if mark > at]
        return self.unread[: min([most, *ahead])]

    def fed(self, tokens: list[int]) -> None:
        """These tokens were part of a pass that succeeded."""
        self.slot.wrote(tokens)
        self.unread = self.unread[len(tokens) :]

    def draw(self, scores: Scores, row: int) -> None:
        """Draw one token from a row of `scores`, if the answer may have one."""
        if self._first_logits is None:
            self._first_logits = time.monotonic()
        if self._limit > 0:
            token = self._sampler.sample(scores, row)
            self._sampler.accept(token)
            self.drawn.append(token)

    def tell(self) -> None:
        """Send what may leave of the token drawn last; end the job when the answer is over."""
        if not self.drawn:
            self._end("length")
            return
        token = self.drawn[-1]
        if token in self._tokenizer.vocab.end_of_generation:
            self._end("stop")
            return
        special = token in self.job.request.preserve
        self._send(self._stream.push(self._tokenizer.piece(token, special=special)))
        if self._stream.stopped is not None:
            self._end("stop")
        elif len(self.drawn) >= self._limit:
            self._end("length")

    def _send(self, text: str) -> None:
        if text:
            self._texts.append(text)
            self.job.emit(Delta(text))

    def _end(self, finish: str) -> None:
        if self._stream.stopped is None:
            self._send(self._stream.finish())
        prompt = len(self.job.request.prompt)
        self.job.finish(
            Completion(
                text="".join(self._texts),
                finish=finish,
                stop_word=self._stream.stopped,
                prompt_tokens=prompt,
                cached_tokens=self.cached,
                completion_tokens=len(self.drawn),
                slot=self.slot.index,
                tokens=list(self.drawn),
                timings=self.timings(),
            )
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
            predicted_n=len(self.drawn),
            predicted_ms=(now - first) * 1e3,
        )
