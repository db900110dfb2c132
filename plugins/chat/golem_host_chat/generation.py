"""What a chat route asks of the lane, and what comes back: the plugin's request, event and result types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.likelihoods import Likelihood, Probabilities
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.thought_budget import ThoughtBudget


@dataclass(frozen=True)
class Extras:
    """What a request may ask beside a text and its limits.

    `probs`: how likely each token was. `slot`: the one to use. `indent`: blanks that every line but the first begins
    with, or the answer ends. `milliseconds`: after that time it ends with the next line; 0: never. `progress`: events
    while the prompt is read. `timed`: timings with every delta. `ids`: deltas that
    tell the slot, and a last one for ids without text.
    """

    probs: Probabilities | None = None
    slot: int | None = None
    indent: int = 0
    milliseconds: int = 0
    progress: bool = False
    timed: bool = False
    ids: bool = False


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class Generation:
    """One answer to draw: a job's request.

    `prompt` holds token ids (at least one, fewer than the slot's context); `max_tokens` the most tokens to draw (None:
    until the slot is full; 0: only read the prompt). `reuse` lets the prompt continue from what a slot already holds.
    `follows` is the id of a job with the same prompt whose reading this one waits for (copies of one prompt); that job
    is `followed`. `preserve` holds the control tokens whose text leaves with the answer, for those who read it;
    `thoughts` limits how long the model may think, `constraint` what the answer must look like. `complete` makes, for
    each answer, what is told its text as it leaves and says whether the answer is complete with it.
    """

    prompt: list[int]
    params: SamplingParams
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    reuse: bool = True
    follows: int | None = None
    followed: bool = False
    preserve: frozenset[int] = frozenset()
    extras: Extras = NO_EXTRAS
    thoughts: ThoughtBudget | None = None
    complete: Callable[[], Callable[[str], bool]] | None = None
    constraint: Constraint | None = None


@dataclass(frozen=True)
class DrawnToken:
    """A token with its probability. `text` is what it let leave: all since the token before, of whole characters, so
    that the texts of an answer join to its content; empty while a stop string may have begun. `raw` are its bytes,
    which may be no UTF-8.
    """

    id: int
    text: str
    raw: bytes
    likelihood: Likelihood


@dataclass(frozen=True)
class Delta:
    """Text that may leave now: whole characters, never part of a stop string. The texts of an answer join to its
    content. `tokens` are those it came from, where probabilities are wanted, `ids` all since the delta before.
    """

    text: str
    tokens: tuple[DrawnToken, ...] = ()
    ids: tuple[int, ...] = ()
    timings: Timings | None = None
    slot: int | None = None


@dataclass(frozen=True)
class Progress:
    """How much of a prompt of `total` tokens has been read: `processed`, of which `cached` had been before."""

    total: int
    cached: int
    processed: int
    milliseconds: float
    slot: int


@dataclass(frozen=True)
class Timings:
    """Milliseconds and counts of one answer; `prompt_n` excludes the reused part (`cache_n`)."""

    waited_ms: float
    prompt_n: int
    prompt_ms: float
    cache_n: int
    predicted_n: int
    predicted_ms: float


@dataclass(frozen=True)
class Completion:
    """The end of an answer. `text` is the whole content; `completion_tokens` counts the end token (llama-server)."""

    text: str
    finish: str
    """`stop` (end of turn or a stop string) or `length` (token limit or full context)."""
    stop_word: str | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    slot: int
    timings: Timings
    tokens: list[int] = field(default_factory=list)
    """The ids drawn, end token included."""
    probabilities: tuple[DrawnToken, ...] = ()
    """Where they are wanted; without those of a stop string."""
    truncated: bool = False
    """The context is full."""
