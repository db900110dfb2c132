"""The one-shot policy: everything that waits, up to a budget, is answered by one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from golem_host.errors import DeviceFailed
from golem_host.lanes.job import Job
from golem_host.lanes.lane import Lane, log, pass_failed


class OneShotLane(Lane):
    """Gathers waiting jobs first come first served into passes of at most `budget` (in the unit of `cost`: positions).

    `run_batch` answers every job it is given, on the device thread. A pass smaller than `gather_below` waits up to
    `gather_seconds` for company. When `run_batch` raises for a batch of several, each unanswered job is run again
    alone, so that only the one at fault fails; when it raises `DeviceFailed`, the lane fails.
    """

    def __init__(
        self,
        name: str,
        run_batch: Callable[[list[Job[Any]]], None],
        *,
        kind: str,
        cost: Callable[[Job[Any]], int],
        budget: int,
        gather_below: int,
        gather_seconds: float,
        weight: float = 1.0,
        queue_limit: int = 512,
    ) -> None:
        super().__init__(name, kind=kind, weight=weight, queue_limit=queue_limit)
        self._run_batch = run_batch
        self._cost = cost
        self._budget = budget
        self._gather_below = gather_below
        self._gather_seconds = gather_seconds
        self._batch: list[Job[Any]] = []

    def in_flight(self) -> list[Job[Any]]:
        return [job for job in self._batch if job.end is None]

    def next_time(self, now: float) -> float | None:
        with self._lock:
            self._drop_cancelled()
            if not self._queue:
                self._ready_since = None
                return None
            if self._ready_since is None:
                self._ready_since = now
            if sum(self._cost(job) for job in self._queue) >= self._gather_below:
                return now
            return self._ready_since + self._gather_seconds

    def run(self, now: float) -> None:
        self._batch = self._gather()
        for job in self._batch:
            job.start()
        if self._batch:
            self._answer(self._batch)
            self.passes += 1
        self._batch = []
        self._ready_since = None

    def _gather(self) -> list[Job[Any]]:
        batch: list[Job[Any]] = []
        spent = 0
        with self._lock:
            self._drop_cancelled()
            while self._queue and (not batch or spent + self._cost(self._queue[0]) <= self._budget):
                job = self._queue.popleft()
                spent += self._cost(job)
                batch.append(job)
        return batch

    def _answer(self, batch: list[Job[Any]]) -> None:
        try:
            self._run_batch(batch)
        except DeviceFailed as error:
            self.lose_device(error)
            return
        except Exception as error:
            unanswered = [job for job in batch if job.end is None]
            log.exception("%s: a pass of %d failed", self.name, len(batch))
            if len(batch) == 1:
                batch[0].fail(pass_failed(error))
                return
            for job in unanswered:
                if self.failed is None:
                    self._answer([job])
            return
        for job in batch:
            job.fail(pass_failed(RuntimeError(f"{self.name} answered its batch without this job")))
