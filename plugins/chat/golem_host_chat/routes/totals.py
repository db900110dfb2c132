"""What the choices of one answer took together: for usage, timings and the request line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from golem_host.http.requestlog import RequestNote
from golem_host_chat.generation import Completion, Timings


@dataclass(frozen=True)
class Totals:
    """Tokens and milliseconds of all choices.

    `prompt_tokens` are the whole prompts, `cached` the part that was not read again, `read` the rest. Choices are drawn
    side by side, so of their times the longest counts.
    """

    prompt_tokens: int
    cached: int
    read: int
    read_ms: float
    drawn: int
    drawn_ms: float

    @classmethod
    def of(cls, completions: Sequence[Completion], copies: int = 1) -> Totals:
        """The totals of choices that come in groups of `copies` drawn from one prompt, which counts once."""
        firsts = completions[::copies]
        return cls(
            prompt_tokens=sum(completion.prompt_tokens for completion in firsts),
            cached=sum(completion.cached_tokens for completion in firsts),
            read=sum(completion.timings.prompt_n for completion in firsts),
            read_ms=max(completion.timings.prompt_ms for completion in firsts),
            drawn=sum(completion.completion_tokens for completion in completions),
            drawn_ms=max(completion.timings.predicted_ms for completion in completions),
        )

    @classmethod
    def timed(cls, timings: Timings) -> Totals:
        """Those of one answer so far."""
        return cls(
            prompt_tokens=timings.prompt_n + timings.cache_n,
            cached=timings.cache_n,
            read=timings.prompt_n,
            read_ms=timings.prompt_ms,
            drawn=timings.predicted_n,
            drawn_ms=timings.predicted_ms,
        )


def fill_note(note: RequestNote, completions: Sequence[Completion], copies: int = 1) -> None:
    """Tell the request line what an answer took."""
    totals = Totals.of(completions, copies)
    note.slot = completions[0].slot
    note.waited_ms = max(completion.timings.waited_ms for completion in completions)
    note.prompt_tokens, note.prompt_ms, note.cached = totals.read, totals.read_ms, totals.cached
    note.drawn, note.drawn_ms = totals.drawn, totals.drawn_ms
    note.finish = "/".join(dict.fromkeys(completion.finish for completion in completions))
    if len(completions) > 1:
        note.extra["choices"] = len(completions)
