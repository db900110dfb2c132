"""Whose turn it is on a device: a deadline that has come first, else the lane with least device time for its weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from golem_host.lanes.lane import Lane


class PolicyError(Exception):
    """A lane's own policy raised when it was asked when it wants the device."""

    def __init__(self, lane: Lane, error: Exception) -> None:
        super().__init__(f"{lane.name}: {error}")
        self.lane = lane
        self.error = error


class FairShare:
    """Virtual device time per lane (seconds used divided by weight).

    A lane that was idle does not save its share up: when it comes back it starts level with the least served lane that
    is ready (start-time fair queueing, Goyal et al. 1996).
    """

    def __init__(self) -> None:
        self._used: dict[Lane, float] = {}
        self._idle: set[Lane] = set()

    def add(self, lane: Lane) -> None:
        self._used[lane] = 0.0
        self._idle.add(lane)

    def remove(self, lane: Lane) -> None:
        self._used.pop(lane, None)
        self._idle.discard(lane)

    def busy(self, lane: Lane) -> bool:
        """Whether the lane had work when it was last asked."""
        return lane not in self._idle

    def charge(self, lane: Lane, seconds: float) -> None:
        """Account a pass."""
        if lane in self._used:
            self._used[lane] += seconds / lane.weight

    def choose(self, now: float) -> tuple[Lane | None, float | None]:
        """The lane to run now, or (None, the time at which some lane will be ready, None when none has work).

        Raises `PolicyError` naming the lane whose policy raised.
        """
        ready: list[Lane] = []
        later: float | None = None
        idle: list[Lane] = []
        for lane in self._used:
            at = self._ask(lane, lane.next_time, now)
            if at is None:
                idle.append(lane)
            elif at <= now:
                ready.append(lane)
            elif later is None or at < later:
                later = at
        if not self._idle.isdisjoint(ready):
            self._level(ready)
        self._idle.update(idle)
        if not ready:
            return None, later
        if len(ready) == 1:
            return ready[0], None
        due = {lane: self._ask(lane, lane.due, now) for lane in ready}
        overdue = [(at, lane) for lane, at in due.items() if at is not None and at <= now]
        if overdue:
            return min(overdue, key=lambda pair: pair[0])[1], None
        return min(ready, key=self._used.__getitem__), None

    def _ask(self, lane: Lane, question: Callable[[float], float | None], now: float) -> float | None:
        try:
            return question(now)
        except Exception as error:
            raise PolicyError(lane, error) from error

    def _level(self, ready: Iterable[Lane]) -> None:
        active = [self._used[lane] for lane in self._used if lane not in self._idle]
        floor = min(active, default=max(self._used.values(), default=0.0))
        for lane in ready:
            if lane in self._idle:
                self._idle.discard(lane)
                self._used[lane] = max(self._used[lane], floor)
