"""The stepwise policy with integers: seats, fairness in line, cancelling, failing passes, the wait for company."""

from __future__ import annotations

import pytest

from golem_host.errors import BadRequest, DeviceFailed, Overloaded, RequestError, Unavailable
from golem_host.lanes.job import End, Job
from golem_host.lanes.stepwise import StepwiseLane


class Counting:
    """Each job asks for a number of steps; there are `seats` places."""

    def __init__(self, seats: int) -> None:
        self.seats = seats
        self.left: dict[Job, int] = {}
        self.passes: list[list[int]] = []
        self.poison: BaseException | None = None
        self.recovered = 0

    def admit(self, job: Job) -> bool | None:
        if job.request == "bad":
            raise BadRequest("bad request")
        if len(self.left) == self.seats:
            return False
        self.left[job] = job.request
        return True

    def step(self) -> None:
        if self.poison is not None:
            error, self.poison = self.poison, None
            raise error
        self.passes.append([job.request for job in self.left])
        for job in list(self.left):
            self.left[job] -= 1
            if not self.left[job]:
                del self.left[job]
                job.finish("done")

    def release(self, job: Job) -> None:
        self.left.pop(job, None)

    def recover(self) -> None:
        self.recovered += 1
        self.left.clear()


def lane_of(seats: int, **options) -> tuple[StepwiseLane, Counting]:
    stepper = Counting(seats)
    return StepwiseLane("test", stepper, kind="test", **options), stepper


def run_all(lane: StepwiseLane) -> None:
    for _ in range(100):
        if lane.next_time(0.0) is None:
            return
        lane.run(0.0)
    raise AssertionError("the lane never came to rest")


def test_every_pass_advances_all_seats_and_the_line_moves_up() -> None:
    lane, stepper = lane_of(2)
    jobs = [Job(n) for n in (3, 1, 2)]
    for job in jobs:
        lane.submit(job)
    run_all(lane)
    assert stepper.passes == [[3, 1], [3, 2], [3, 2]]
    assert all(job.end is End.DONE for job in jobs)
    assert lane.state() == {"queued": 0, "running": 0, "passes": 3}


def test_those_whose_one_seat_is_taken_are_asked_once_a_pass_and_hold_up_nobody() -> None:
    class Pinned(Counting):
        asked = 0

        def admit(self, job: Job) -> bool | None:
            if isinstance(job.request, int):
                return super().admit(job)
            self.asked += 1
            return None

    stepper = Pinned(2)
    lane = StepwiseLane("test", stepper, kind="test")
    pinned = [Job("pinned") for _ in range(20)]
    for job in (Job(3), *pinned, Job(3)):
        lane.submit(job)
    lane.run(0.0)
    pinned[0].cancel()
    lane.run(0.0)
    assert stepper.passes == [[3, 3], [3, 3]]
    assert stepper.asked == 20 + 19 and lane.state()["queued"] == 19


def test_a_full_queue_refuses_and_forgets_those_that_left() -> None:
    lane, _ = lane_of(1, queue_limit=2)
    waiting = [Job(1), Job(1)]
    for job in waiting:
        lane.submit(job)
    with pytest.raises(Overloaded) as refused:
        lane.submit(Job(1))
    assert refused.value.headers["Retry-After"] == "1" and "2 requests are waiting" in refused.value.message
    waiting[0].cancel()
    lane.submit(Job(1))


def test_what_free_seats_will_take_does_not_fill_the_queue() -> None:
    lane = StepwiseLane("test", Counting(2), kind="test", queue_limit=1, seats=2)
    for _ in range(3):
        lane.submit(Job(9))
    with pytest.raises(Overloaded):
        lane.submit(Job(9))
    lane.run(0.0)  # two are seated, one waits
    with pytest.raises(Overloaded):
        lane.submit(Job(9))


def test_a_seat_is_free_in_the_pass_after_its_client_left() -> None:
    lane, stepper = lane_of(1)
    gone, next_one = Job(50), Job(1)
    lane.submit(gone)
    lane.submit(next_one)
    lane.run(0.0)
    gone.cancel()
    lane.run(0.0)
    assert next_one.end is End.DONE and not stepper.left


def test_a_client_that_leaves_during_a_pass_gives_its_seat_back() -> None:
    class LeavesDuringThePass(Counting):
        def step(self) -> None:
            gone.cancel()
            super().step()

    stepper = LeavesDuringThePass(1)
    lane = StepwiseLane("test", stepper, kind="test")
    gone, next_one = Job(50), Job(1)
    lane.submit(gone)
    lane.submit(next_one)
    run_all(lane)
    assert next_one.end is End.DONE and not stepper.left


def test_a_client_that_leaves_in_line_never_takes_a_seat() -> None:
    lane, stepper = lane_of(1)
    first, second = Job(1), Job(7)
    lane.submit(first)
    lane.submit(second)
    second.cancel()
    run_all(lane)
    assert stepper.passes == [[1]]


def test_cancelling_wakes_the_device() -> None:
    lane, _ = lane_of(1)
    woken = []
    lane.attach(lambda: woken.append(True))
    job = Job(1)
    lane.submit(job)
    job.cancel()
    assert len(woken) == 2


def test_a_refused_admission_fails_that_job_alone() -> None:
    lane, _ = lane_of(2)
    bad, good = Job("bad"), Job(1)
    lane.submit(bad)
    lane.submit(good)
    run_all(lane)
    assert isinstance(bad.error, BadRequest) and good.end is End.DONE


def test_a_pass_that_raises_fails_its_jobs_and_the_next_request_answers() -> None:
    lane, stepper = lane_of(2)
    doomed = [Job(3), Job(3)]
    for job in doomed:
        lane.submit(job)
    stepper.poison = FloatingPointError("nan")
    lane.run(0.0)
    for job in doomed:
        assert isinstance(job.error, RequestError) and "FloatingPointError: nan" in str(job.error)
    assert stepper.recovered == 1
    after = Job(1)
    lane.submit(after)
    run_all(lane)
    assert after.end is End.DONE and lane.failed is None


def test_a_lane_that_cannot_recover_is_closed_and_says_so() -> None:
    lane, stepper = lane_of(1)
    job = Job(3)
    lane.submit(job)
    stepper.poison = RuntimeError("first")

    def broken() -> None:
        raise RuntimeError("second")

    stepper.recover = broken
    lane.run(0.0)
    assert str(lane.failed) == "second" and job.end is End.FAILED
    with pytest.raises(RequestError, match="cannot recover"):
        lane.submit(Job(1))
    assert lane.next_time(0.0) is None


def test_a_pass_waits_a_moment_for_a_request_that_is_arriving() -> None:
    ticks = iter([10.0, 10.008])
    lane, _ = lane_of(2, clock=lambda: next(ticks))
    lane.submit(Job(2))
    assert lane.next_time(5.0) == 5.0, "a lone client never waits"
    lane.run(5.0)
    with lane.arriving():
        assert lane.next_time(5.0) == pytest.approx(5.0 + 0.008 / 8)
    assert lane.next_time(5.0) == 5.0


def test_the_wait_is_bounded() -> None:
    ticks = iter([0.0, 1.0])
    lane, _ = lane_of(2, clock=lambda: next(ticks))
    lane.submit(Job(2))
    lane.run(0.0)
    with lane.arriving():
        assert lane.next_time(5.0) == pytest.approx(5.002)
        assert lane.next_time(6.0) == pytest.approx(5.002), "the wait does not start again"


def test_closing_ends_every_job() -> None:
    lane, _ = lane_of(1)
    seated, queued = Job(9), Job(9)
    lane.submit(seated)
    lane.submit(queued)
    lane.run(0.0)
    lane.close()
    assert isinstance(seated.error, Unavailable) and isinstance(queued.error, Unavailable)
    with pytest.raises(Unavailable):
        lane.submit(Job(1))


def test_due_is_the_earliest_deadline() -> None:
    lane, _ = lane_of(1)
    assert lane.due(0.0) is None
    for deadline in (None, 4.0, 3.0):
        lane.submit(Job(9, deadline=deadline))
    assert lane.due(0.0) == 3.0


def test_the_note_of_a_pass_is_the_steppers_own() -> None:
    lane, stepper = lane_of(1)
    lane.submit(Job(2))
    lane.run(0.0)
    assert lane.pass_note() == "1 in flight"
    stepper.step = lambda: "all of them"  # pyright: ignore[reportAttributeAccessIssue]
    lane.run(0.0)
    assert lane.pass_note() == "all of them"


def test_a_lost_device_fails_every_job_and_the_lane() -> None:
    lane, stepper = lane_of(1)
    jobs = [Job(3), Job(1)]
    for job in jobs:
        lane.submit(job)
    stepper.poison = DeviceFailed("the device is gone")
    lane.run(0.0)
    assert [job.end for job in jobs] == [End.FAILED, End.FAILED]
    assert lane.failed is not None and lane.next_time(0.0) is None
    with pytest.raises(DeviceFailed, match="the device is gone"):
        lane.submit(Job(1))
