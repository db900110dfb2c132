"""A lane: one loaded model's bounded queue, and what every batch policy shares."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from golem_host.errors import DeviceFailed, Overloaded, RequestError, Unavailable
from golem_host.lanes.job import Job
from golem_host.lanes.tally import Tally
from golem_host.printable import described

log = logging.getLogger("golem_host.lanes")

PASS_SECONDS = 0.1
"""About how long a pass may take where that can be chosen, so that other lanes get their turn ..."""
SHORT_PASS_SECONDS = 0.025
"""... and how long while another lane of the device has work with deadlines: a live stream's frame, which must be heard
within 80 ms, waits for the pass that runs."""
BACKGROUND_SECONDS = 0.01
"""... and how long then those of a lane that works in the background, which nobody waits for that long."""
LEAST_SECONDS = 0.002
"""What a pass may take in any case."""
RECENT = 8
"""Passes of a lane, of which the shortest tells those that work in the background how long they may take."""


def pass_failed(error: BaseException) -> RequestError:
    """What a caller is told when the pass its job was in raised: the error's own words if it was meant for callers."""
    if isinstance(error, RequestError):
        return error
    return RequestError(f"the model failed while computing this answer ({described(error)})")


class Lane(ABC):
    """One loaded model's queue and batch policy.

    Any thread submits; the device thread calls `next_time`, `due` and `run`. `weight` is the share of device time the
    lane may have beside others. Times are seconds of `time.monotonic`.
    """

    def __init__(self, name: str, *, kind: str, weight: float = 1.0, queue_limit: int = 512) -> None:
        self.name = name
        self.kind = kind
        self.weight = weight
        self.queue_limit = queue_limit
        self.failed: BaseException | None = None
        """Why this lane can no longer answer; health turns red with it."""
        self.background = False
        """Whether its work is long and nobody waits for a part of it (a picture): beside lanes that have work, its
        passes are no longer than theirs, so that a conversation's tokens come at half their rate at least."""
        self.recent: deque[float] = deque(maxlen=RECENT)
        """Seconds that its last passes took."""
        self.passes = 0
        self.pass_seconds = PASS_SECONDS
        """About how long its next pass may take; the device says so."""
        self.tally = Tally()
        """For `/metrics`; the registry puts that of the model's earlier lanes in its place."""
        self._queue: deque[Job[Any]] = deque()
        self._lock = threading.Lock()
        self._closed: RequestError | None = None
        self._arriving = 0
        self._ready_since: float | None = None
        self._wake: Callable[[], None] = lambda: None

    def submit(self, job: Job[Any]) -> None:
        """Queue a job (any thread). Raises `Overloaded` for a full queue and `Unavailable` for a closed lane."""
        with self._lock:
            if self._closed is not None:
                raise self._closed
            waiting = self._drop_cancelled()
            if waiting >= self.queue_limit + self._free_seats():
                self.tally.refused += 1
                raise Overloaded(
                    f"server busy: {waiting} requests are waiting for {self.name}, the most its queue holds; try again"
                )
            self._queue.append(job)
        # Registered outside the lock: a job cancelled meanwhile calls back at once.
        job.on_cancel(self.wake)
        self.wake()

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """A request is known to be coming (its body is read, its text tokenized). A pass may wait a moment for it.

        Leave the block before `submit`, so that a request never waits for itself.
        """
        with self._lock:
            self._arriving += 1
        try:
            yield
        finally:
            with self._lock:
                self._arriving -= 1
            self.wake()

    def wake(self) -> None:
        """Make the device look at this lane again (any thread)."""
        self._wake()

    def attach(self, wake: Callable[[], None]) -> None:
        """Called by the device that takes the lane: `wake` makes it look again."""
        self._wake = wake

    @abstractmethod
    def next_time(self, now: float) -> float | None:
        """When the lane next wants the device: None when it has nothing to do, a time <= `now` when it is ready."""

    def due(self, now: float) -> float | None:
        """The earliest deadline among its jobs, or None. A deadline that has come goes before every fair share."""
        with self._lock:
            return min((job.deadline for job in self._queue if job.deadline is not None), default=None)

    @property
    def punctual(self) -> bool:
        """Whether it has work whose parts will have deadlines, so that others should keep their passes short."""
        return False

    @abstractmethod
    def run(self, now: float) -> None:
        """Build one bounded pass of what waits, run it, deliver. Errors end the jobs of that pass, never the lane."""

    def close(self, error: RequestError | None = None) -> None:
        """Refuse new jobs and fail everything waiting or in flight. Called once the device no longer runs the lane."""
        error = error or Unavailable(f"{self.name} was unloaded")
        with self._lock:
            self._closed = error
            jobs = list(self._queue)
            self._queue.clear()
        for job in jobs + self.in_flight():
            job.fail(error)

    def lose_device(self, error: DeviceFailed) -> None:
        """The device failed for good: end every job with the reason. The next request that asks for the model loads it
        anew (`Registry.use`).
        """
        log.error("%s: %s", self.name, error)
        self.failed = error
        self.close(error)

    def refuse(self, error: RequestError) -> None:
        """Refuse new jobs from now on and let those inside finish (graceful stop)."""
        with self._lock:
            self._closed = error

    def in_flight(self) -> list[Job[Any]]:
        """The jobs a pass has begun and not ended."""
        return []

    def begin(self, job: Job[Any]) -> None:
        """A job leaves the queue (first call counts)."""
        if job.started is None:
            job.start()
            self.tally.wait_seconds.observe(max(0.0, job.waited))

    def count_pass(self, seconds: float, requests: int) -> None:
        """A pass over that many requests has ended."""
        self.passes += 1
        self.recent.append(seconds)
        self.tally.pass_seconds.observe(seconds)
        self.tally.pass_requests.observe(requests)

    def state(self) -> dict[str, Any]:
        """Counts for health, metrics and `--debug-batches`."""
        with self._lock:
            queued = sum(not job.cancelled for job in self._queue)
        return {"queued": queued, "running": len(self.in_flight()), "passes": self.passes}

    def _free_seats(self) -> int:
        """How many of the queued jobs do not wait, since the next pass seats them."""
        return 0

    def pass_note(self) -> str:
        """Who went into the last pass, for `--debug-batches`."""
        return f"{len(self.in_flight())} in flight"

    def _drop_cancelled(self) -> int:
        """Forget queued jobs whose client left; the count that stays. The caller holds the lock."""
        if any(job.cancelled for job in self._queue):
            self._queue = deque(job for job in self._queue if not job.cancelled)
        return len(self._queue)
