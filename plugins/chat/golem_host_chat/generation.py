"""What a chat route asks of the lane, and what comes back: the plugin's request, event and result types."""

from __future__ import annotations

from dataclasses import dataclass, field

from golem_host_chat.sampling_params import SamplingParams


@dataclass(frozen=True)
class Generation:
    """One answer to draw: a job's request.

    `prompt` holds token ids (at least one, fewer than the slot's context); `max_tokens` the most tokens to draw (None:
    until the slot is full; 0: only read the prompt). `reuse` lets the prompt continue from what a slot already holds.
    `follows` is the id of a job with the same prompt whose reading this one waits for (copies of one prompt); that job
    is `followed`. `preserve` holds the control tokens whose text leaves with the answer, for those who read it.
    """

    prompt: list[int]
    params: SamplingParams
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    reuse: bool = True
    follows: int | None = None
    followed: bool = False
    preserve: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Delta:
    """Text that may leave now: whole characters, never part of a stop string. The texts of an answer join to its
    content.
    """

    text: str


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
