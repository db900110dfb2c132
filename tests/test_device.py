"""The device thread: turns by deadline and by share, calls between passes, lanes that fail."""

from __future__ import annotations

import threading
import time
import weakref
from itertools import pairwise

import pytest

from golem_host.devices.choice import FairShare
from golem_host.devices.device import Device, pass_seconds
from golem_host.errors import RequestError
from golem_host.lanes.job import Job
from golem_host.lanes.lane import BACKGROUND_SECONDS, LEAST_SECONDS, PASS_SECONDS, SHORT_PASS_SECONDS, Lane


class Fixed(Lane):
    """Always ready (or never), with a fixed deadline."""

    def __init__(
        self, name: str, *, weight: float = 1.0, at: float | None = 0.0, deadline: float | None = None
    ) -> None:
        super().__init__(name, kind="test", weight=weight)
        self.at = at
        self.deadline = deadline

    def next_time(self, now: float) -> float | None:
        return self.at

    def due(self, now: float) -> float | None:
        return self.deadline

    def run(self, now: float) -> None:
        self.passes += 1


def turns(shares: FairShare, count: int, seconds: float = 1.0) -> list[str]:
    seen = []
    for _ in range(count):
        lane, _later = shares.choose(0.0)
        assert lane is not None
        shares.charge(lane, seconds)
        seen.append(lane.name)
    return seen


def shares_of(*lanes: Lane) -> FairShare:
    shares = FairShare()
    for lane in lanes:
        shares.add(lane)
    return shares


def test_lanes_share_by_weight() -> None:
    seen = turns(shares_of(Fixed("light"), Fixed("heavy", weight=3.0)), 40)
    assert seen.count("heavy") == 30


def test_a_deadline_that_has_come_goes_first_and_one_to_come_does_not() -> None:
    late, early, fair = Fixed("late", deadline=-1.0), Fixed("early", deadline=-2.0), Fixed("fair")
    assert shares_of(late, early, fair).choose(0.0)[0] is early
    assert shares_of(fair, Fixed("later", deadline=5.0)).choose(0.0)[0] is fair


def test_an_idle_lane_saves_nothing_up() -> None:
    busy, idle = Fixed("busy"), Fixed("idle", at=None)
    shares = shares_of(busy, idle)
    turns(shares, 50)
    idle.at = 0.0
    assert turns(shares, 10).count("idle") == 5


def test_nothing_ready_says_when() -> None:
    assert shares_of(Fixed("a", at=None)).choose(0.0) == (None, None)
    assert shares_of(Fixed("a", at=7.0), Fixed("b", at=5.0)).choose(0.0) == (None, 5.0)


class Echo(Lane):
    """Answers every queued job; `break_policy` makes the policy itself raise."""

    break_policy = False

    def next_time(self, now: float) -> float | None:
        if self.break_policy:
            raise RuntimeError("broken policy")
        return now if self._queue else None

    def run(self, now: float) -> None:
        while self._queue:
            job = self._queue.popleft()
            job.finish((job.request, threading.current_thread().name))


@pytest.fixture
def device():
    device = Device("test", lambda: "backend")
    device.start()
    yield device
    device.stop()


def wait_for(job: Job) -> None:
    done = threading.Event()
    for _ in range(1000):
        if job.end is not None:
            return
        done.wait(0.01)
    raise AssertionError("the job never ended")


def test_jobs_run_on_the_device_thread_and_calls_between_passes(device: Device) -> None:
    lane = Echo("echo", kind="test")
    device.attach(lane)
    job = Job("hello")
    lane.submit(job)
    wait_for(job)
    assert job.value == ("hello", "device test")
    assert device.submit(lambda: threading.current_thread().name).result(5) == "device test"
    with pytest.raises(ZeroDivisionError):
        device.submit(lambda: 1 // 0).result(5)
    assert device.alive(lane, 5)


def test_a_detached_lane_fails_its_jobs_and_is_not_alive(device: Device) -> None:
    lane = Echo("echo", kind="test")
    device.attach(lane)
    device.detach(lane)
    assert not device.alive(lane, 5)
    with pytest.raises(RequestError, match="unloaded"):
        lane.submit(Job("late"))


def test_a_device_that_waits_keeps_no_lane_it_gave_up(device: Device) -> None:
    lane = Fixed("a", at=None)
    device.attach(lane)
    device.detach(lane)
    held = weakref.ref(lane)
    del lane
    until = time.monotonic() + 10
    while held() is not None and time.monotonic() < until:
        time.sleep(0.001)
    assert held() is None


@pytest.mark.parametrize("where", ["next_time", "run"])
def test_a_policy_that_raises_closes_its_lane_only(device: Device, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, healthy = Echo("broken", kind="test"), Echo("healthy", kind="test")
    device.attach(broken)
    device.attach(healthy)
    if where == "next_time":
        broken.break_policy = True
    else:
        monkeypatch.setattr(broken, "run", lambda now: 1 / 0)
    lost, kept = Job("lost"), Job("kept")
    broken.submit(lost)
    healthy.submit(kept)
    wait_for(lost)
    wait_for(kept)
    assert lost.error is not None and kept.error is None
    assert not device.alive(broken, 5) and device.alive(healthy, 5)


def test_stopping_closes_lanes_and_refuses_calls() -> None:
    device = Device("test", lambda: None)
    device.start()
    lane = Echo("echo", kind="test")
    device.attach(lane)
    device.stop()
    with pytest.raises(RequestError):
        lane.submit(Job("late"))
    with pytest.raises(RuntimeError, match="has stopped"):
        device.submit(lambda: None)
    assert not device.alive(lane, 1)


def test_a_backend_whose_device_was_lost_is_made_anew() -> None:
    class Backend:
        lost = False

    device = Device("test", Backend)
    first = device.backend
    assert device.backend is first
    first.lost = True
    assert device.backend is not first


class Punctual(Echo):
    """Has work with deadlines while it says so."""

    live = True

    @property
    def punctual(self) -> bool:
        return self.live


def test_passes_are_short_beside_a_lane_with_deadlines(device: Device) -> None:
    other, live = Echo("other", kind="test"), Punctual("live", kind="test")
    device.attach(other)
    device.attach(live)
    seen = []
    for each in (other, live):
        each.submit(job := Job(1))
        wait_for(job)
        seen.append(each.pass_seconds)
    live.live = False
    other.submit(job := Job(1))
    wait_for(job)
    assert seen == [SHORT_PASS_SECONDS, PASS_SECONDS] and other.pass_seconds == PASS_SECONDS


def test_beside_a_picture_a_conversations_tokens_come_at_half_their_rate_at_least() -> None:
    """By a clock of its own: steps of a conversation, and passes of a lane that works in the background."""
    talking, drawing, live = Fixed("talking"), Fixed("drawing", weight=0.5), Punctual("live", kind="test")
    drawing.background = True
    assert pass_seconds(drawing, [talking, live], lambda lane: True) == BACKGROUND_SECONDS
    assert pass_seconds(drawing, [talking], lambda lane: True) == PASS_SECONDS
    shares, now, step = FairShare(), 0.0, 0.005
    for lane in (talking, drawing):
        shares.add(lane)
    tokens: list[float] = []
    for _ in range(200):
        lane, _ = shares.choose(now)
        assert lane is not None
        seconds = step if lane is talking else pass_seconds(drawing, [talking], shares.busy)
        now += seconds
        lane.count_pass(seconds, 1)
        shares.charge(lane, seconds)
        if lane is talking:
            tokens.append(now)
    assert drawing.passes > 50
    # the very first pass knows of no other's
    assert max(after - before for before, after in pairwise(tokens[2:])) <= 2 * step + 1e-9
    talking.recent.append(1e-6)
    assert pass_seconds(drawing, [talking], lambda lane: True) == LEAST_SECONDS
    assert pass_seconds(drawing, [talking], lambda lane: False) == PASS_SECONDS
