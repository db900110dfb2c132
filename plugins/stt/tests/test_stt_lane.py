"""The lane's policy: live frames on time before other lanes, recordings beside them, one failure alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host.api import InternalError, Job, Unavailable
from golem_host.devices.choice import FairShare
from golem_host.lanes.job import End
from golem_host.lanes.stepwise import StepwiseLane
from golem_host.testing.fakes import Script, ScriptStepper
from golem_host_stt.checkpoint import Lm, Timing
from golem_host_stt.lane import ListeningLane
from golem_host_stt.listening import Heard, Request
from golem_host_stt.mimi_config import FRAME
from golem_host_stt.passes import Step
from golem_host_stt.stepper import BESIDE_LIVE, ListeningStepper
from golem_host_stt.streams import Live, Whole
from golem_host_stt.text import Pieces
from golem_host_stt.workloads import workloads
from stt_checks import tiny

LEVELS = 2
LM = Lm(64, 64, 2, 2, 12, 1e5, 300, 16, LEVELS, 4, 3)
TIMING = Timing(0.5, 0.0)


class FakePasses:
    """Passes that take time of a clock and say a pad; `damaged` slots say nothing finite."""

    def __init__(self, clock: Clock, slots: int = 3) -> None:
        self.slots, self.widest_encoding = slots, 8
        self.clock = clock
        self.damaged: set[int] = set()
        self.encoded: list[list[int]] = []
        self.stepped: list[list[int]] = []

    def encode(self, slots: Sequence[int], positions: Sequence[int], samples: NDArray[np.float32]) -> NDArray[np.int32]:
        assert len(slots) == len(positions) == len(samples) <= self.widest_encoding
        self.encoded.append([*slots])
        self.clock.now += 0.002 * len(slots)
        return np.zeros((len(slots), LEVELS), np.int32)

    def step(self, slots: Sequence[int], positions: Sequence[int], text: Sequence[int], codes: NDArray) -> list[Step]:
        self.stepped.append([*slots])
        self.clock.now += 0.010
        return [Step(-1 if slot in self.damaged else 3, np.zeros(300, np.float32), None) for slot in slots]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Rig:
    """A lane over fake passes."""

    def __init__(self, slots: int = 3) -> None:
        self.clock = Clock()
        self.passes = FakePasses(self.clock, slots)
        pieces = Pieces(tiny() / "tokenizer.model", 300, 3)
        self.stepper = ListeningStepper(self.passes, LM, TIMING, pieces, clock=self.clock)  # type: ignore[arg-type]
        self.lane = ListeningLane("stt", self.stepper, kind="stt", queue_limit=8, clock=self.clock)

    def live(self) -> tuple[Job[Request], Live]:
        source = Live(self.clock)
        return self._submitted(source), source

    def recording(self, seconds: float = 1.0) -> Job[Request]:
        return self._submitted(Whole(np.zeros(round(seconds * 24000), np.float32), TIMING))

    def _submitted(self, source: Whole | Live) -> Job[Request]:
        job = Job(Request(source))
        self.lane.submit(job)
        return job

    def until_idle(self) -> None:
        while self.lane.next_time(self.clock.now) is not None:
            self.lane.run(self.clock.now)


def frame(count: int = 1) -> NDArray[np.float32]:
    return np.zeros(count * FRAME, np.float32)


def test_no_frame_of_sixty_seconds_is_late_beside_other_lanes() -> None:
    """Two other lanes always have work: conversations that draw in passes of 15 ms, pictures in passes of 40 ms. Each
    frame is heard within the 80 ms that it lasts."""
    rig = Rig()
    job, source = rig.live()
    others = []
    for name in ("chat", "picture"):
        lane = StepwiseLane(name, ScriptStepper(1, 0.0), kind=name)
        lane.submit(Job(Script(silent=True)))
        others.append(lane)
    shares = FairShare()
    for lane in (rig.lane, *others):
        shares.add(lane)
    start, pushed, late = rig.clock.now, 0, []
    turns = {"stt": 0, "chat": 0, "picture": 0}
    while pushed < 750 or source.waiting:
        while pushed < 750 and start + 0.08 * (pushed + 1) <= rig.clock.now:
            source.push(frame())
            pushed += 1
        chosen, _ = shares.choose(rig.clock.now)
        assert chosen is not None
        before, due = rig.clock.now, source.due
        if chosen is rig.lane:
            chosen.run(rig.clock.now)
            if due is not None:
                late.append(rig.clock.now - due)
        else:
            rig.clock.now += 0.015 if chosen.name == "chat" else 0.040
        turns[chosen.name] += 1
        shares.charge(chosen, rig.clock.now - before)
    assert len(late) == 750 and max(late) < 0.08
    assert min(turns["chat"], turns["picture"]) > 100
    assert job.end is None


def test_a_frame_is_due_when_it_is_complete_but_not_before_the_last_has_lasted() -> None:
    clock = Clock()
    source = Live(clock)
    assert not source.push(frame()[:1000]) and source.due is None
    assert source.push(frame()[:920]) and source.due == 100.0
    clock.now = 100.01
    source.push(frame(2))
    assert source.waiting == 3
    dues = []
    while source.due is not None:
        dues.append(round(source.due, 6))
        source.take(1)
    assert dues == [100.0, 100.08, 100.16]
    clock.now = 200.0
    source.push(frame())
    assert source.due == 200.0 and source.received == 4 * FRAME


def test_samples_come_out_as_they_went_in() -> None:
    source = Live(Clock())
    samples = np.arange(5 * FRAME, dtype=np.float32)
    for part in np.split(samples, [1, 7, 3000, 3001, 9000]):
        source.push(part)
    np.testing.assert_array_equal(source.take(3).reshape(-1), samples[: 3 * FRAME])
    np.testing.assert_array_equal(source.take(2).reshape(-1), samples[3 * FRAME :])


def test_an_idle_stream_wants_nothing() -> None:
    rig = Rig()
    _, source = rig.live()
    assert rig.lane.next_time(0) is not None  # to be seated
    rig.lane.run(0)
    assert rig.lane.next_time(0) is None and rig.lane.due(0) is None
    source.push(frame())
    assert rig.lane.next_time(0) is not None and rig.lane.due(0) == 100.0
    rig.until_idle()
    assert rig.passes.stepped == [[0], [0]]  # the beginning, and the frame
    source.push(frame())
    rig.until_idle()
    assert len(rig.passes.stepped) == 3


def test_recordings_take_many_frames_alone_and_go_on_beside_a_live_stream() -> None:
    rig = Rig()
    recording = rig.recording(2.0)
    rig.lane.run(rig.clock.now)
    assert rig.passes.encoded == [[0] * 8]
    _, source = rig.live()
    source.push(frame(12))
    while source.waiting:
        rig.lane.run(rig.clock.now)
    assert any(1 in slots and slots.count(0) in (1, BESIDE_LIVE) for slots in rig.passes.encoded)
    assert any(sorted(slots) == [0, 1] for slots in rig.passes.stepped)
    rig.until_idle()
    assert recording.end is End.DONE and recording.value.seconds == 2.0


def test_a_pass_of_recordings_ends_when_a_live_frame_comes() -> None:
    rig = Rig()
    rig.recording(3.0)
    _, source = rig.live()
    rig.lane.run(0)
    step, calls = rig.passes.step, []

    def pushing(*args: object) -> list[Step]:
        calls.append(args)
        if len(calls) == 2:
            source.push(frame())
        return step(*args)  # type: ignore[arg-type]

    rig.passes.step = pushing  # type: ignore[method-assign]
    rig.lane.run(0)
    assert len(calls) == 2
    rig.lane.run(0)
    assert source.waiting == 0


def test_no_seat_no_turn() -> None:
    rig = Rig(slots=1)
    first, _ = rig.live()
    second = rig.recording()
    rig.lane.run(0)
    assert first.started is not None and second.started is None
    assert rig.lane.next_time(0) is None
    first.cancel()
    assert rig.lane.next_time(0) is not None
    rig.until_idle()
    assert second.end is End.DONE


def test_a_live_stream_is_due_when_it_comes_and_a_seat_is_free() -> None:
    rig = Rig(slots=1)
    rig.recording().cancel()
    waiting = rig.recording()
    assert rig.lane.due(0) is None
    waiting.cancel()
    rig.until_idle()
    first, _ = rig.live()
    assert rig.lane.due(0) == first.created
    rig.lane.run(0)
    rig.live()
    assert rig.lane.due(0) is None, "no seat is free"


def test_damaged_numbers_fail_their_stream_alone() -> None:
    rig = Rig()
    bad, good = rig.recording(), rig.recording()
    rig.passes.damaged.add(0)
    rig.until_idle()
    assert isinstance(bad.error, InternalError) and "not finite" in str(bad.error)
    assert good.end is End.DONE
    rig.passes.damaged.clear()
    again = [rig.recording() for _ in range(3)]
    rig.until_idle()
    assert all(job.end is End.DONE for job in again)


def test_a_pass_that_raises_fails_its_streams_and_the_next_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    job = rig.recording()
    encode, rig.passes.encode = rig.passes.encode, lambda *_: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    rig.lane.run(0)
    assert job.end is End.FAILED and "a pass failed" in caplog.text
    rig.passes.encode = encode  # type: ignore[method-assign]
    jobs = [rig.recording() for _ in range(3)]
    rig.until_idle()
    assert all(job.end is End.DONE for job in jobs)


def test_live_streams_end_when_the_host_stops() -> None:
    rig = Rig()
    live, _ = rig.live()
    recording = rig.recording()
    rig.lane.run(0)
    rig.lane.refuse(Unavailable("the host is stopping"))
    rig.until_idle()
    assert live.end is End.CANCELLED and recording.end is End.DONE
    assert rig.lane.state()["running"] == 0


def test_other_lanes_keep_their_passes_short_while_a_live_stream_is_seated() -> None:
    rig = Rig()
    rig.recording()
    rig.lane.run(0)
    assert not rig.lane.punctual
    live, _ = rig.live()
    rig.lane.run(0)
    assert rig.lane.punctual
    live.cancel()
    rig.lane.run(0)
    assert not rig.lane.punctual


def test_what_a_live_stream_is_told() -> None:
    rig = Rig()
    job, source = rig.live()
    source.push(frame(2))
    rig.until_idle()
    events: list[Heard] = list(job._events)
    assert [event.step for event in events] == [1, 2, 3]
    assert events[0].words == () and events[0].pauses == ()


def test_what_is_timed_is_heard() -> None:
    """`golem-host bench`: recordings that differ from round to round, one and as many as there are streams."""
    runtime = SimpleNamespace(timing=TIMING, streams=3)
    works = workloads(runtime)  # type: ignore[arg-type]
    assert [work.name for work in works] == ["one recording of 4 s", "3 recordings of 4 s at once"]
    rig = Rig()
    jobs = [Job(request) for turn in (0, 1) for request in works[1].requests(turn)]
    for job in jobs:
        rig.lane.submit(job)
    frames = [job.request.source.take(1).tobytes() for job in jobs]
    assert len(set(frames)) == len(jobs) == 6
    rig.until_idle()
    assert works[1].amount([job.value for job in jobs[:3]]) == sum(job.value.seconds for job in jobs[:3]) == 12
    assert len(workloads(SimpleNamespace(timing=TIMING, streams=1))) == 1  # type: ignore[arg-type]
