"""What happens to jobs while a host runs: who was submitted where, which ended twice, which are still kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from golem_host.api import Job, Lane
from golem_host.lanes.job import End


class Records:
    """`faults` are texts of what was done to a job after its end; a job whose client left does not count."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._submitted: list[tuple[weakref.ref[Job[Any]], weakref.ref[Lane]]] = []

    def __len__(self) -> int:
        """How many jobs were submitted so far."""
        return len(self._submitted)

    def jobs(self, since: int = 0) -> list[Job[Any]]:
        """Jobs that were submitted since there were `since`, those that are still there."""
        return [job for job in (reference() for reference, _ in self._submitted[since:]) if job is not None]

    def lanes(self, since: int) -> list[Lane]:
        """The lanes they were submitted to, those that are still there."""
        return [lane for lane in (reference() for _, reference in self._submitted[since:]) if lane is not None]

    def kept(self, since: int) -> int:
        """How many of those jobs something still refers to."""
        gc.collect()
        return len(self.jobs(since))


@contextmanager
def recording() -> Iterator[Records]:
    """Record all jobs of this process inside the block."""
    records = Records()
    submit, finish, emit = Lane.submit, Job.finish, Job.emit

    def recorded_submit(lane: Lane, job: Job[Any]) -> None:
        submit(lane, job)
        records._submitted.append((weakref.ref(job), weakref.ref(lane)))

    def recorded_finish(job: Job[Any], result: Any = None) -> bool:
        ended = finish(job, result)
        if not ended and job.end in (End.DONE, End.FAILED):
            records.faults.append(f"job {job.id} had ended ({job.end.value}) and was finished again")
        return ended

    def recorded_emit(job: Job[Any], event: Any) -> None:
        if job.end in (End.DONE, End.FAILED):
            records.faults.append(
                f"job {job.id} had ended ({job.end.value}) and emitted {type(event).__name__} after it"
            )
        emit(job, event)

    Lane.submit, Job.finish, Job.emit = recorded_submit, recorded_finish, recorded_emit  # type: ignore[method-assign]
    try:
        yield records
    finally:
        Lane.submit, Job.finish, Job.emit = submit, finish, emit  # type: ignore[method-assign]
