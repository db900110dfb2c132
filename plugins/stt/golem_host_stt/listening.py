"""One stream that is heard: what its job carries, and what the steps of the model tell of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from golem_host.api import Job
from golem_host_stt.checkpoint import Lm, Timing
from golem_host_stt.lm import pause_probabilities
from golem_host_stt.mimi_config import FRAME_RATE
from golem_host_stt.passes import Codes, Step
from golem_host_stt.streams import Live, Whole
from golem_host_stt.text import Pieces, RunningText
from golem_host_stt.words import Word, WordBegun, WordEnded, WordTimes, split_words

END_OF_TURN = 2
"""The head that tells pauses of two seconds."""


@dataclass(frozen=True)
class Delta:
    """Text that was added to a transcript."""

    text: str


@dataclass(frozen=True)
class Heard:
    """What one step told of a live stream: number of the step, from 1; its text token; words begun and ended; the
    probabilities of pauses of at least 0.5, 1, 2 and 3 s, where the model has heads for them; frames that wait."""

    step: int
    token: int
    words: tuple[WordBegun | WordEnded, ...]
    pauses: tuple[float, ...]
    waiting: int


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording of `seconds`. `logprobs` are those of the text tokens, in their order; `turns` the
    times at which the model held somebody's turn for ended."""

    text: str
    seconds: float
    words: list[Word]
    tokens: list[int]
    logprobs: list[float]
    turns: list[float]


@dataclass(frozen=True)
class Request:
    """What a job carries: what is heard, and for a recording whether probabilities of tokens are wanted."""

    source: Whole | Live
    logprobs: bool = False


@dataclass
class Seat:
    """A stream in its slot. `codes` are rows that the language model has not heard, the first that of the beginning."""

    job: Job[Request]
    slot: int
    pieces: Pieces
    lm: Lm
    timing: Timing
    codes: deque[Codes] = field(default_factory=deque)
    frames: int = 0
    steps: int = 0
    text: int = 0

    def __post_init__(self) -> None:
        self.codes.append(np.full(self.lm.levels, self.lm.cards, np.int32))
        self.text = self.lm.text_cards
        self._words = WordTimes(int(self.timing.delay * FRAME_RATE), self.lm.padding)
        self._running = RunningText(self.pieces)
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._told: list[WordBegun | WordEnded] = []
        self._turns: list[float] = []
        self._armed = False
        self._whole: list[str] = []

    @property
    def source(self) -> Whole | Live:
        return self.job.request.source

    @property
    def ready(self) -> bool:
        """Whether the language model has something to hear; of the beginning alone nothing is told."""
        return self.frames > 0 and bool(self.codes)

    @property
    def done(self) -> bool:
        """Whether nothing is left to hear, and nothing comes."""
        return not (self.codes or self.source.live or self.source.waiting)

    def hear(self, step: Step) -> None:
        """Take what the next step gave, and tell the job."""
        first = self.steps == 0
        self.steps += 1
        self.text = step.token
        # What is said about the beginning alone is no answer to anything heard.
        token = self.lm.padding if first else step.token
        told = self._words.add(token)
        pauses: list[float] = [] if step.pauses is None else pause_probabilities(step.pauses).tolist()
        if self.source.live:
            self.job.emit(Heard(self.steps, token, tuple(told), tuple(pauses), self.source.waiting))
            return
        self._told += told
        if any(isinstance(each, WordBegun) for each in told):
            self._armed = True
        if self._armed and len(pauses) > END_OF_TURN and pauses[END_OF_TURN] > 0.5:
            self._armed = False
            self._turns.append(self._seconds(self.steps / FRAME_RATE - self.timing.delay))
        if self.pieces.bytes_of(token):
            self._tokens.append(token)
            if self.job.request.logprobs:
                self._logprobs.append(_logprob(step.logits, token))
        self._emit(self._running.add(token))

    def transcript(self) -> Transcript:
        """What a recording said; its end is heard."""
        assert isinstance(self.source, Whole)
        self._emit(self._running.end())
        seconds = self.source.seconds
        self._told += self._words.end(seconds + self.timing.prefix)
        words: list[Word] = []
        begun: WordBegun | None = None
        for each in self._told:
            if isinstance(each, WordBegun):
                if begun is not None:  # one word follows another without an end between them
                    words += split_words(begun, each.start, self.pieces)
                begun = each
            elif begun is not None:
                words += split_words(begun, each.stop, self.pieces)
                begun = None
        placed = [Word(word.text, self._seconds(word.start), self._seconds(word.end), word.tokens) for word in words]
        return Transcript("".join(self._whole), seconds, placed, self._tokens, self._logprobs, self._turns)

    def _emit(self, text: str) -> None:
        if text:
            self._whole.append(text)
            self.job.emit(Delta(text))

    def _seconds(self, at: float) -> float:
        """A time of the stream as one of the client's recording."""
        assert isinstance(self.source, Whole)
        return round(min(max(0.0, at - self.timing.prefix), self.source.seconds), 3)


def _logprob(logits: np.ndarray, token: int) -> float:
    """The natural logarithm of the probability of a token."""
    wide = logits.astype(np.float64)
    largest = wide.max()
    return float(wide[token] - largest - np.log(np.exp(wide - largest).sum()))
