"""Holding a lane's passes, letting them go one by one, and making them fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from golem_host.api import Job, Lane, OneShotLane, StepwiseLane

LONGEST = 120.0
"""Seconds that a pass is held at most, should nobody open the gate."""


class PassGate:
    """The passes of one lane. `before` holds the lane before it chooses who goes into a pass, `within` when it has
    chosen and nothing is computed yet. Both are open at first.
    """

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._changed = threading.Condition()
        self._held = {"before": False, "within": False}
        self._permits = 0
        self.waiting = False
        """Whether a pass is held `within`."""
        self._fail_at: int | None = None
        self._poisoned: Job[Any] | None = None
        self.widest = 0
        """The most requests that one pass has held."""
        self._wrap()

    def hold(self, where: str) -> None:
        with self._changed:
            self._held[where] = True

    def open(self) -> None:
        with self._changed:
            self._held = dict.fromkeys(self._held, False)
            self._permits = 0
            self._changed.notify_all()

    def allow_one(self) -> None:
        """Let the pass go that is held `within`, or the next one."""
        with self._changed:
            self._permits += 1
            self.waiting = False
            self._changed.notify_all()

    def fail_pass(self, number: int) -> None:
        """Let the pass raise that is `number` passes from now on (1: the next), instead of computing."""
        self._fail_at = number

    @property
    def fails(self) -> bool:
        """Whether the pass that is to raise has not come yet."""
        return self._fail_at is not None

    def poison(self, job: Job[Any]) -> None:
        """Let computing raise where this job takes part: its admission to a seat, or every batch that has it."""
        self._poisoned = job

    def _wrap(self) -> None:
        lane: Any = self.lane
        run = lane.run

        def held_run(now: float) -> None:
            self._wait("before")
            run(now)

        lane.run = held_run
        count_pass = lane.count_pass

        def counted_pass(seconds: float, requests: int) -> None:
            self.widest = max(self.widest, requests)
            count_pass(seconds, requests)

        lane.count_pass = counted_pass
        if isinstance(self.lane, StepwiseLane):
            lane.stepper = _HeldStepper(lane.stepper, self)
        elif isinstance(self.lane, OneShotLane):
            run_batch = lane._run_batch

            def held_batch(parts: list[Any]) -> None:
                self.enter()
                if any(part.job is self._poisoned for part in parts):
                    raise RuntimeError("poisoned by the conformance suite")
                run_batch(parts)

            lane._run_batch = held_batch

    def enter(self) -> None:
        """Called on the device thread at the beginning of a pass."""
        self._wait("within")
        if self._fail_at is not None:
            self._fail_at -= 1
            if self._fail_at == 0:
                self._fail_at = None
                raise RuntimeError("a pass made to fail by the conformance suite")

    def admit(self, admit: Callable[[Job[Any]], bool | None], job: Job[Any]) -> bool | None:
        if job is self._poisoned:
            raise RuntimeError("poisoned by the conformance suite")
        return admit(job)

    def _wait(self, where: str) -> None:
        with self._changed:
            if not self._held[where]:
                return
            self.waiting = where == "within"
            self._changed.wait_for(lambda: not self._held[where] or (where == "within" and self._permits > 0), LONGEST)
            self.waiting = False
            if self._held[where] and where == "within":
                self._permits -= 1


class _HeldStepper:
    """A stepper whose passes and admissions go through a gate."""

    def __init__(self, stepper: Any, gate: PassGate) -> None:
        self._stepper, self._gate = stepper, gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    def admit(self, job: Job[Any]) -> bool | None:
        return self._gate.admit(self._stepper.admit, job)

    def step(self) -> object:
        self._gate.enter()
        return self._stepper.step()
