"""The one-shot policy: everything that waits, up to a budget, is answered by one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from golem_host.errors import DeviceFailed
from golem_host.lanes.job import Job
from golem_host.lanes.lane import Lane, log, pass_failed


@dataclass(frozen=True)
class Part:
    """Items `first` .. `end` of a job's request, which one pass computes; `last` says that none come after them."""

    job: Job[Any]
    first: int
    end: int
    last: bool


def one_item(job: Job[Any]) -> Sequence[int]:
    """A request that is one item and costs 1: `budget` counts requests."""
    return (1,)


class OneShotLane(Lane):
    """Gathers waiting jobs first come first served into passes of at most `budget` (in the unit of `costs`: positions;
    by default requests).

    `costs` tells what each item of a job's request costs, at least one item, the same at every call. A job whose items
    do not fit into a pass is cut: the rest of them wait behind the jobs that came meanwhile. A single item larger than
    the budget goes alone.

    `run_batch` computes the parts it is given, on the device thread, and ends each job whose last part is among them.
    When it raises for several parts, each whose job has no end is run again alone, so that only the one at fault fails;
    when it raises `DeviceFailed`, the lane fails.

    A pass smaller than `gather_below` waits up to `gather_seconds` for company: until as many jobs wait as the last
    pass answered or left waiting, so a lone client never waits.
    """

    def __init__(
        self,
        name: str,
        run_batch: Callable[[list[Part]], None],
        *,
        kind: str,
        budget: int,
        costs: Callable[[Job[Any]], Sequence[int]] = one_item,
        gather_below: int = 0,
        gather_seconds: float = 0.0,
        weight: float = 1.0,
        queue_limit: int = 512,
    ) -> None:
        super().__init__(name, kind=kind, weight=weight, queue_limit=queue_limit)
        self._run_batch = run_batch
        self._costs = costs
        self._budget = budget
        self._gather_below = gather_below
        self._gather_seconds = gather_seconds
        self._batch: list[Part] = []
        self._computed: WeakKeyDictionary[Job[Any], int] = WeakKeyDictionary()
        self._expected = 0
        self._note = ""

    def in_flight(self) -> list[Job[Any]]:
        return [part.job for part in self._batch if part.job.end is None]

    def pass_note(self) -> str:
        return self._note

    def next_time(self, now: float) -> float | None:
        with self._lock:
            self._drop_cancelled()
            if not self._queue:
                self._ready_since = None
                return None
            if self._ready_since is None:
                self._ready_since = now
            if len(self._queue) >= self._expected and not self._arriving:
                return now
            waiting = 0
            for job in self._queue:
                for cost in self._costs(job)[self._computed.get(job, 0) :]:
                    waiting += cost
                    if waiting >= self._gather_below:
                        return now
            return self._ready_since + self._gather_seconds

    def run(self, now: float) -> None:
        self._batch, spent = self._gather()
        for part in self._batch:
            self.begin(part.job)
        if self._batch:
            self._note = f"{spent} of {self._budget} for {len(self._batch)} requests"
            started = time.monotonic()
            self._answer(self._batch)
            self._put_back()
            self.count_pass(time.monotonic() - started, len(self._batch))
        self._batch = []
        self._ready_since = None

    def _gather(self) -> tuple[list[Part], int]:
        """What fits into a pass, and what it costs."""
        batch: list[Part] = []
        spent = 0
        with self._lock:
            self._drop_cancelled()
            while self._queue and (not batch or batch[-1].last):
                job = self._queue[0]
                costs, first = self._costs(job), self._computed.get(job, 0)
                end = first
                while end < len(costs) and (spent + costs[end] <= self._budget or not (batch or end > first)):
                    spent += costs[end]
                    end += 1
                if end == first:
                    break
                batch.append(Part(self._queue.popleft(), first, end, end == len(costs)))
        return batch, spent

    def _put_back(self) -> None:
        """Queue the job that was cut, and note how many may come for the next pass."""
        with self._lock:
            self._expected = len(self._queue) + sum(part.last for part in self._batch)
            for part in self._batch:
                if not part.last and part.job.end is None:
                    self._computed[part.job] = part.end
                    self._queue.append(part.job)
                    self._expected += 1

    def _answer(self, batch: list[Part]) -> None:
        try:
            self._run_batch(batch)
        except DeviceFailed as error:
            self.lose_device(error)
            return
        except Exception as error:
            unanswered = [part for part in batch if part.job.end is None]
            log.exception("%s: a pass of %d failed", self.name, len(batch))
            self.tally.failed_passes += 1
            if len(batch) == 1:
                batch[0].job.fail(pass_failed(error))
                return
            for part in unanswered:
                if self.failed is None:
                    self._answer([part])
            return
        for part in batch:
            if part.last:
                part.job.fail(pass_failed(RuntimeError(f"{self.name} answered its batch without this job")))
