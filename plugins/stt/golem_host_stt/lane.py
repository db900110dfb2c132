"""The lane of a speech-to-text model: it wants the device when there is something to hear, live streams on time."""

from __future__ import annotations

import time
from collections.abc import Callable

from golem_host.api import RequestError, StepwiseLane
from golem_host_stt.stepper import ListeningStepper


class ListeningLane(StepwiseLane):
    """A stepwise lane whose seated streams may have nothing to do.

    A live stream's frame is due when it is complete (`streams.Live`), and a stream itself when it came, where a seat
    is free: a pass that is due goes before other lanes'.
    """

    def __init__(
        self,
        name: str,
        stepper: ListeningStepper,
        *,
        kind: str,
        queue_limit: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name, stepper, kind=kind, queue_limit=queue_limit, clock=clock)
        self._listening = stepper

    def next_time(self, now: float) -> float | None:
        left = any(job.cancelled for job in self._seated)
        with self._lock:
            waits = self._listening.room and any(not job.cancelled for job in self._queue)
        return now if left or waits or self._listening.busy else None

    def due(self, now: float) -> float | None:
        dues = [self._listening.due]
        if self._listening.room:
            with self._lock:
                dues += [job.created for job in self._queue if job.request.source.live and not job.cancelled]
        return min((due for due in dues if due is not None), default=None)

    @property
    def punctual(self) -> bool:
        return any(job.request.source.live for job in self._seated)

    def refuse(self, error: RequestError) -> None:
        """Live streams have no end of their own: they are ended when the host stops."""
        super().refuse(error)
        for job in self.in_flight():
            if job.request.source.live:
                job.cancel()
