"""The one-shot policy with integers: budget, cut jobs, the wait for company, one bad job in a batch."""

from __future__ import annotations

from golem_host.errors import DeviceFailed, RequestError, Unavailable
from golem_host.lanes.job import End, Job
from golem_host.lanes.oneshot import OneShotLane, Part


def lane_of(answer, *, budget: int = 10, gather_below: int = 0, gather_seconds: float = 0.0) -> OneShotLane:
    """A lane whose jobs are lists of what each item costs."""
    return OneShotLane(
        "test",
        answer,
        kind="test",
        costs=lambda job: job.request,
        budget=budget,
        gather_below=gather_below,
        gather_seconds=gather_seconds,
    )


class Recorder:
    """Answers parts and notes the costs of each pass's, job by job."""

    def __init__(self) -> None:
        self.passes: list[list[list[int]]] = []

    def __call__(self, parts: list[Part]) -> None:
        self.passes.append([part.job.request[part.first : part.end] for part in parts])
        for part in parts:
            if part.last:
                part.job.finish(len(part.job.request))


def submit(lane: OneShotLane, *requests: list[int]) -> list[Job]:
    jobs = [Job(request) for request in requests]
    for job in jobs:
        lane.submit(job)
    return jobs


def run_out(lane: OneShotLane) -> None:
    while lane.next_time(0.0) is not None:
        lane.run(0.0)


def test_a_pass_takes_what_fits_in_order_and_a_large_item_goes_alone() -> None:
    lane = lane_of(answer := Recorder())
    submit(lane, [4], [6], [1], [99], [2])
    run_out(lane)
    assert answer.passes == [[[4], [6]], [[1]], [[99]], [[2]]]


def test_by_default_requests_are_counted_and_nobody_waits() -> None:
    passes: list[int] = []

    def answer(parts: list[Part]) -> None:
        passes.append(len(parts))
        for part in parts:
            part.job.finish()

    lane = OneShotLane("test", answer, kind="test", budget=2)
    submit(lane, [7], [8, 9], [1])
    assert lane.next_time(5.0) == 5.0
    run_out(lane)
    assert passes == [2, 1]


def test_a_job_that_does_not_fit_is_cut() -> None:
    lane = lane_of(answer := Recorder())
    small, large = submit(lane, [3], [5, 2, 1, 8, 12, 4, 4, 4])
    run_out(lane)
    assert answer.passes == [[[3], [5, 2]], [[1, 8]], [[12]], [[4, 4]], [[4]]]
    assert (small.value, large.value) == (1, 8)


def test_the_rest_of_a_cut_job_waits_behind_those_that_came_meanwhile() -> None:
    lane: OneShotLane
    record = Recorder()

    def answer(parts: list[Part]) -> None:
        if not record.passes:
            submit(lane, [3, 3])
        record(parts)

    lane = lane_of(answer)
    submit(lane, [5] * 5)
    run_out(lane)
    assert record.passes == [[[5, 5]], [[3, 3]], [[5, 5]], [[5]]]


def test_two_cut_jobs_take_turns() -> None:
    lane = lane_of(answer := Recorder())
    submit(lane, [10] * 2, [9] * 3)
    run_out(lane)
    assert answer.passes == [[[10]], [[9]], [[10]], [[9]], [[9]]]


def test_a_small_pass_waits_for_company_a_large_one_does_not() -> None:
    lane = lane_of(Recorder(), gather_below=5, gather_seconds=0.25)
    submit(lane, [1], [1], [1])
    lane.run(0.0)
    submit(lane, [2])
    assert lane.next_time(1.0) == 1.25
    assert lane.next_time(1.1) == 1.25
    submit(lane, [1, 2])
    assert lane.next_time(1.1) == 1.1


def test_it_waits_for_no_more_than_came_before() -> None:
    lane = lane_of(Recorder(), gather_below=100, gather_seconds=0.25)
    submit(lane, [1])
    assert lane.next_time(1.0) == 1.0
    lane.run(1.0)
    submit(lane, [1])
    assert lane.next_time(2.0) == 2.0
    submit(lane, [1])
    lane.run(2.0)
    submit(lane, [1])
    assert lane.next_time(3.0) == 3.25
    submit(lane, [1])
    assert lane.next_time(3.0) == 3.0


def test_one_that_comes_during_a_pass_is_company_for_the_next() -> None:
    lane: OneShotLane

    def answer(parts: list[Part]) -> None:
        if lane.passes == 0:
            submit(lane, [1])
        for part in parts:
            part.job.finish()

    lane = lane_of(answer, gather_below=100, gather_seconds=0.25)
    submit(lane, [1])
    lane.run(1.0)
    assert lane.next_time(2.0) == 2.25


def test_one_known_to_be_arriving_is_waited_for() -> None:
    lane = lane_of(Recorder(), gather_below=100, gather_seconds=0.25)
    submit(lane, [1])
    with lane.arriving():
        assert lane.next_time(1.0) == 1.25
    assert lane.next_time(1.0) == 1.0


def test_one_bad_job_fails_alone() -> None:
    def answer(parts: list[Part]) -> None:
        for part in parts:
            if part.job.request == [3]:
                raise ValueError("three")
        for part in parts:
            part.job.finish(part.job.request)

    lane = lane_of(answer)
    good, bad, other = submit(lane, [1], [3], [2])
    lane.run(0.0)
    assert (good.value, other.value) == ([1], [2])
    assert isinstance(bad.error, RequestError) and "three" in str(bad.error)


def test_a_bad_part_ends_its_job() -> None:
    def answer(parts: list[Part]) -> None:
        raise ValueError("bad")

    lane = lane_of(answer)
    (bad,) = submit(lane, [7, 7, 7])
    lane.run(0.0)
    assert bad.end is End.FAILED
    assert lane.next_time(0.0) is None


def test_a_batch_that_forgets_a_job_fails_it() -> None:
    lane = lane_of(lambda parts: parts[0].job.finish())
    first, forgotten = submit(lane, [1], [1])
    lane.run(0.0)
    assert first.end is End.DONE and isinstance(forgotten.error, RequestError)


def test_cancelled_jobs_are_not_run() -> None:
    lane = lane_of(answer := Recorder())
    one, two = submit(lane, [1], [2])
    one.cancel()
    lane.run(0.0)
    assert answer.passes == [[[2]]] and two.end is End.DONE


def test_a_cut_job_that_was_cancelled_goes_no_further() -> None:
    lane = lane_of(answer := Recorder())
    (job,) = submit(lane, [9] * 100)
    lane.run(0.0)
    job.cancel()
    assert lane.next_time(0.0) is None
    assert answer.passes == [[[9]]]


def test_closing_ends_a_cut_job() -> None:
    lane = lane_of(Recorder())
    (job,) = submit(lane, [9] * 3)
    lane.run(0.0)
    lane.close()
    assert isinstance(job.error, Unavailable)


def test_a_lost_device_fails_every_job_and_the_lane_without_another_try() -> None:
    tries = []

    def answer(parts: list[Part]) -> None:
        tries.append(len(parts))
        raise DeviceFailed("the device is gone")

    lane = lane_of(answer)
    jobs = submit(lane, [4], [6], [1])
    lane.run(0.0)
    assert tries == [2] and lane.failed is not None
    assert all(isinstance(job.error, DeviceFailed) for job in jobs)
