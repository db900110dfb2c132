"""What a lane has done: counted by the thread that does it, read by any other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """How many values were at most each of `bounds` (ascending), and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """The counts up to each bound, then of all values."""
        return list(accumulate(self._counts))


class Tally:
    """The figures of one model's lanes, one after another: a model that is loaded again goes on counting."""

    def __init__(self) -> None:
        self.pass_seconds = Histogram(SECONDS)
        self.pass_requests = Histogram(REQUESTS)
        """Requests that shared a pass."""
        self.wait_seconds = Histogram(SECONDS)
        """From submission to the first pass, or to a seat."""
        self.refused = 0
        """Requests that found the queue full."""
        self.failed_passes = 0
