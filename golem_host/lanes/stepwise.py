"""The stepwise policy: every pass advances everything that holds a seat (conversations, streams, a picture)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from golem_host.errors import DeviceFailed, InternalError, RequestError
from golem_host.lanes.job import Job
from golem_host.lanes.lane import Lane, log, pass_failed

GATHER_FRACTION = 1 / 8
"""A pass waits for a request that is arriving at most this part of the last pass ..."""
GATHER_SECONDS = 0.002
"""... and never longer than this (seconds)."""


class Stepper(Protocol):
    """What a plugin writes: seats, and one pass over them. Every method runs on the device thread."""

    def admit(self, job: Job[Any]) -> bool | None:
        """Seat a job; False when no seat is free now (it stays first in line), None when the one seat it may have is
        taken (those behind it may pass). Raising fails that job alone.
        """
        ...

    def step(self) -> object:
        """Run one bounded pass over everything seated; end the jobs that end and free their seats.

        What it returns says, as `str`, what went in: for `--debug-batches`. None says nothing of its own.
        An error that belongs to one job is that job's (`job.fail`, seat freed); raising fails every job of the pass,
        and `DeviceFailed` the lane.
        """
        ...

    def release(self, job: Job[Any]) -> None:
        """Free the seat of a job that was cancelled, if it still has one."""
        ...

    def recover(self) -> None:
        """`step` raised and its jobs have failed: free all seats and forget state that may be half written."""
        ...


class StepwiseLane(Lane):
    """Seats jobs first come first served, and steps while any is seated.

    Between passes it frees the seats of clients that left, so a seat is free within one pass. While another request is
    known to be arriving, a pass waits for it a moment (an eighth of the last pass, at most 2 ms): one wide pass costs
    little more than a narrow one. A lone client never waits. `seats` is how many jobs the stepper seats at once: of
    those queued, as many as there are free seats do not count as waiting.
    """

    def __init__(
        self,
        name: str,
        stepper: Stepper,
        *,
        kind: str,
        weight: float = 1.0,
        queue_limit: int = 512,
        seats: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name, kind=kind, weight=weight, queue_limit=queue_limit)
        self.stepper = stepper
        self._seats = seats
        self._clock = clock
        self._seated: list[Job[Any]] = []
        self._last_pass = 0.0
        self._carried: object = None

    def in_flight(self) -> list[Job[Any]]:
        return list(self._seated)

    def _free_seats(self) -> int:
        return max(0, self._seats - len(self._seated))

    def pass_note(self) -> str:
        return super().pass_note() if self._carried is None else str(self._carried)

    def due(self, now: float) -> float | None:
        queued = super().due(now)
        seated = [job.deadline for job in self._seated if job.deadline is not None]
        return min([*seated, *([] if queued is None else [queued])], default=None)

    def next_time(self, now: float) -> float | None:
        with self._lock:
            if not self._queue and not self._seated:
                self._ready_since = None
                return None
            if self._ready_since is None:
                self._ready_since = now
            if not self._arriving:
                return now
            return self._ready_since + min(self._last_pass * GATHER_FRACTION, GATHER_SECONDS)

    def run(self, now: float) -> None:
        self._free_left()
        if self._queue:
            self._seat_waiting()
        if self._seated:
            started, seated = self._clock(), len(self._seated)
            self._carried = None
            try:
                self._carried = self.stepper.step()
            except Exception as error:
                log.exception("%s: a pass failed", self.name)
                self.tally.failed_passes += 1
                self._fail_pass(error)
            self._last_pass = self._clock() - started
            self.count_pass(self._last_pass, seated)
            # One whose client left during the pass still holds its seat, unless the stepper ended it in that very pass.
            self._seated = [job for job in self._seated if job.end is None or job.cancelled]
        self._ready_since = None

    def _free_left(self) -> None:
        for job in [job for job in self._seated if job.cancelled]:
            self._seated.remove(job)
            try:
                self.stepper.release(job)
            except Exception as error:
                log.exception("%s: freeing a seat failed", self.name)
                self._fail_pass(error)
                return

    def _seat_waiting(self) -> None:
        with self._lock:
            self._drop_cancelled()
            waiting = list(self._queue)
        for job in waiting:
            if job.cancelled:
                continue
            try:
                seated = self.stepper.admit(job)
            except DeviceFailed as error:
                self._fail_pass(error)
                return
            except Exception as error:
                if not isinstance(error, RequestError):
                    log.exception("%s: seating a request failed", self.name)
                job.fail(pass_failed(error))
                self._take(job)
                continue
            if seated is None:
                continue
            if not seated:
                return
            self._take(job)
            self.begin(job)
            self._seated.append(job)

    def _take(self, job: Job[Any]) -> None:
        # Submitting threads append and drop cancelled jobs meanwhile, so the job may stand elsewhere or nowhere.
        with self._lock:
            if job in self._queue:
                self._queue.remove(job)

    def _fail_pass(self, error: BaseException) -> None:
        if isinstance(error, DeviceFailed):
            self.lose_device(error)
            self._seated = []
            return
        for job in self._seated:
            job.fail(pass_failed(error))
        self._seated = []
        try:
            self.stepper.recover()
        except Exception as second:
            log.exception("%s: recovery failed; the lane is closed", self.name)
            self.failed = second
            self.close(
                InternalError(f"{self.name} cannot recover from a failed pass ({second}); unload and load it again")
            )
