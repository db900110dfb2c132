"""What a pass hears: the next frame of every live stream that has one, and as much of recordings as there is time for.

Nothing here changes an answer: a stream's results depend on its own frames alone, however they are cut into passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from golem_host.api import InternalError, Job
from golem_host_stt.checkpoint import Lm, Timing
from golem_host_stt.listening import Request, Seat
from golem_host_stt.passes import Passes
from golem_host_stt.streams import Live
from golem_host_stt.text import Pieces

BESIDE_LIVE = 2
"""Frames of each recording that a pass of a live stream encodes, so that recordings go on beside it."""
PASS_SECONDS = 0.04
"""How long a pass of recordings goes on at least: half a frame, within which a live stream can wait."""


class ListeningStepper:
    """Seats streams in the slots of `passes` and steps them together (`golem_host.lanes.stepwise.Stepper`)."""

    def __init__(
        self, passes: Passes, lm: Lm, timing: Timing, pieces: Pieces, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._passes, self._lm, self._timing, self._pieces = passes, lm, timing, pieces
        self._clock = clock
        self._seats: dict[Job[Request], Seat] = {}
        self._free = list(range(passes.slots))[::-1]

    @property
    def busy(self) -> bool:
        """Whether a pass would hear anything."""
        return any(seat.source.waiting or not seat.source.live for seat in self._seats.values())

    @property
    def room(self) -> bool:
        """Whether a slot is free."""
        return bool(self._free)

    @property
    def due(self) -> float | None:
        """When the next frame of a live stream is due."""
        dues = [seat.source.due for seat in self._seats.values() if isinstance(seat.source, Live)]
        return min((due for due in dues if due is not None), default=None)

    def admit(self, job: Job[Request]) -> bool:
        if not self._free:
            return False
        self._seats[job] = Seat(job, self._free.pop(), self._pieces, self._lm, self._timing)
        return True

    def step(self) -> object:
        started = self._clock()
        live = [seat for seat in self._seats.values() if seat.source.live and seat.source.waiting]
        recordings = [seat for seat in self._seats.values() if not seat.source.live]
        heard = self._encode(live, recordings)
        said = 0
        while True:
            said += self._say([seat for seat in self._seats.values() if seat.ready])
            # A new stream has two steps to take: that of the beginning, and the one of its first frame.
            if any(seat.ready for seat in live if seat.job in self._seats):
                continue
            waits = self._live_waits() or self._clock() - started >= PASS_SECONDS
            if live or waits or not any(seat.ready for seat in recordings if seat.job in self._seats):
                return f"{heard} frames heard, {said} steps of {len(self._seats)} streams"

    def release(self, job: Job[Request]) -> None:
        seat = self._seats.pop(job, None)
        if seat is not None:
            self._free.append(seat.slot)

    def recover(self) -> None:
        for job in list(self._seats):
            self.release(job)

    def _live_waits(self) -> bool:
        return any(seat.source.live and seat.source.waiting for seat in self._seats.values())

    def _encode(self, live: list[Seat], recordings: list[Seat]) -> int:
        """Turn frames into codes: one of each live stream, and of recordings that have none left."""
        wanted = [(seat, 1) for seat in live]
        room = self._passes.widest_encoding - len(live)
        hungry = [seat for seat in recordings if not seat.ready]
        for at, seat in enumerate(hungry):
            most = BESIDE_LIVE if live else room // (len(hungry) - at)
            count = min(most, room, seat.source.waiting)
            if count > 0:
                wanted.append((seat, count))
                room -= count
        if not wanted:
            return 0
        slots = [seat.slot for seat, count in wanted for _ in range(count)]
        positions = [seat.frames + each for seat, count in wanted for each in range(count)]
        codes = self._passes.encode(slots, positions, np.concatenate([seat.source.take(n) for seat, n in wanted]))
        at = 0
        for seat, count in wanted:
            seat.codes.extend(codes[at : at + count])
            seat.frames += count
            at += count
        return at

    def _say(self, seats: list[Seat]) -> int:
        """One step of the language model for each seat."""
        if not seats:
            return 0
        codes = np.stack([seat.codes.popleft() for seat in seats])
        slots, positions = [seat.slot for seat in seats], [seat.steps for seat in seats]
        steps = self._passes.step(slots, positions, [seat.text for seat in seats], codes)
        for seat, step in zip(seats, steps, strict=True):
            if step.token < 0:
                seat.job.fail(InternalError("what the model heard is not finite: its weights are damaged"))
                self.release(seat.job)
                continue
            seat.hear(step)
            if seat.done:
                seat.job.finish(seat.transcript())
                self.release(seat.job)
        return len(seats)
