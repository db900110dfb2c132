"""What a chat model has read and drawn, under llama-server's names for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from golem_host.api import Metric
from golem_host_chat.generation import Timings


@dataclass
class Work:
    """Tokens and the seconds they took: prompts read (`cached` ones left out) and tokens drawn."""

    read: int = 0
    read_seconds: float = 0.0
    drawn: int = 0
    drawn_seconds: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.read + other.read,
            self.read_seconds + other.read_seconds,
            self.drawn + other.drawn,
            self.drawn_seconds + other.drawn_seconds,
        )

    def __sub__(self, other: Work) -> Work:
        return self + Work(-other.read, -other.read_seconds, -other.drawn, -other.drawn_seconds)


class Counts:
    """Counted on the device thread; `since_last` belongs to the one thread that asks it."""

    def __init__(self) -> None:
        self.work = Work()
        self.cached = 0
        """Prompt tokens that were kept from before."""
        self.passes = 0
        self.seats = 0
        """Conversations in each pass, summed over all of them."""
        self.longest = 0
        """The most tokens, of prompt and answer, a conversation has had."""
        self._told = Work()

    def ended(self, timings: Timings, length: int) -> None:
        """A conversation of so many tokens leaves its slot, answered or not."""
        done = Work(timings.prompt_n, timings.prompt_ms / 1e3, timings.predicted_n, timings.predicted_ms / 1e3)
        self.work += done
        self.cached += timings.cache_n
        self.longest = max(self.longest, length)

    def passed(self, conversations: int) -> None:
        """A pass over so many conversations."""
        self.passes += 1
        self.seats += conversations

    def since_last(self) -> Work:
        """What was done since the last call."""
        now = self.work
        done, self._told = now - self._told, now
        return done


def metrics(counts: Iterable[Counts], *, running: int, waiting: int) -> list[Metric]:
    """llama-server's figures, of all models together: it has one. Rates are those since the last scrape."""
    counts = list(counts)
    work = sum((each.work for each in counts), Work())
    recent = sum((each.since_last() for each in counts), Work())
    passes, seats = sum(each.passes for each in counts), sum(each.seats for each in counts)
    read_rate, drawn_rate = _rate(recent.read, recent.read_seconds), _rate(recent.drawn, recent.drawn_seconds)
    counters = (
        ("prompt_tokens_total", "Prompt tokens read, those kept from before left out", work.read),
        ("prompt_tokens_cached_total", "Prompt tokens kept from before", sum(each.cached for each in counts)),
        ("prompt_seconds_total", "Time of reading prompts", work.read_seconds),
        ("tokens_predicted_total", "Tokens drawn", work.drawn),
        ("tokens_predicted_seconds_total", "Time of drawing tokens", work.drawn_seconds),
        ("n_decode_total", "Passes", passes),
    )
    gauges = (
        ("n_tokens_max", "Longest conversation, prompt and answer", max((each.longest for each in counts), default=0)),
        ("prompt_tokens_seconds", "Prompt tokens a second since the last scrape", read_rate),
        ("predicted_tokens_seconds", "Tokens drawn a second since the last scrape", drawn_rate),
        ("requests_processing", "Requests that have a slot", running),
        ("requests_deferred", "Requests that wait for one", waiting),
        ("n_busy_slots_per_decode", "Conversations in a pass, on average", seats / (passes or 1)),
    )
    return [
        Metric(f"llamacpp:{name}", kind, text, [({}, value)])
        for kind, group in (("counter", counters), ("gauge", gauges))
        for name, text, value in group
    ]


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
