"""The one-shot policy with integers: budget, the wait for company, one bad job in a batch."""

from __future__ import annotations

from golem_host.errors import DeviceFailed, RequestError
from golem_host.lanes.job import End, Job
from golem_host.lanes.oneshot import OneShotLane


def lane_of(answer, *, budget: int = 10, gather_below: int = 0, gather_seconds: float = 0.0) -> OneShotLane:
    return OneShotLane(
        "test",
        answer,
        kind="test",
        cost=lambda job: job.request,
        budget=budget,
        gather_below=gather_below,
        gather_seconds=gather_seconds,
    )


def submit(lane: OneShotLane, *costs: int) -> list[Job]:
    jobs = [Job(cost) for cost in costs]
    for job in jobs:
        lane.submit(job)
    return jobs


def test_a_pass_takes_what_fits_in_order_and_a_large_job_goes_alone() -> None:
    passes = []

    def answer(jobs: list[Job]) -> None:
        passes.append([job.request for job in jobs])
        for job in jobs:
            job.finish()

    lane = lane_of(answer)
    submit(lane, 4, 6, 1, 99, 2)
    while lane.next_time(0.0) is not None:
        lane.run(0.0)
    assert passes == [[4, 6], [1], [99], [2]]


def test_a_small_pass_waits_for_company_a_large_one_does_not() -> None:
    lane = lane_of(lambda jobs: None, gather_below=5, gather_seconds=0.25)
    submit(lane, 2)
    assert lane.next_time(1.0) == 1.25
    assert lane.next_time(1.1) == 1.25
    submit(lane, 3)
    assert lane.next_time(1.1) == 1.1


def test_one_bad_job_fails_alone() -> None:
    def answer(jobs: list[Job]) -> None:
        for job in jobs:
            if job.request == 3:
                raise ValueError("three")
        for job in jobs:
            job.finish(job.request)

    lane = lane_of(answer)
    good, bad, other = submit(lane, 1, 3, 2)
    lane.run(0.0)
    assert (good.value, other.value) == (1, 2)
    assert isinstance(bad.error, RequestError) and "three" in str(bad.error)


def test_a_batch_that_forgets_a_job_fails_it() -> None:
    lane = lane_of(lambda jobs: jobs[0].finish())
    first, forgotten = submit(lane, 1, 1)
    lane.run(0.0)
    assert first.end is End.DONE and isinstance(forgotten.error, RequestError)


def test_cancelled_jobs_are_not_run() -> None:
    ran = []
    lane = lane_of(lambda jobs: [job.finish(ran.append(job.request)) for job in jobs])
    one, two = submit(lane, 1, 2)
    one.cancel()
    lane.run(0.0)
    assert ran == [2] and two.end is End.DONE


def test_a_lost_device_fails_every_job_and_the_lane_without_another_try() -> None:
    tries = []

    def answer(jobs: list[Job]) -> None:
        tries.append(len(jobs))
        raise DeviceFailed("the device is gone")

    lane = lane_of(answer)
    jobs = submit(lane, 4, 6, 1)
    lane.run(0.0)
    assert tries == [2] and lane.failed is not None
    assert all(isinstance(job.error, DeviceFailed) for job in jobs)
