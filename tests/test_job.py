"""Jobs end exactly once, whoever ends them and whenever their reader comes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from golem_host.lanes.job import End, Job, JobCancelled


async def _events(job: Job) -> list:
    return [event async for event in job.events()]


def test_events_come_in_order_and_stop_at_the_end() -> None:
    job: Job = Job("request")
    job.emit(1)
    job.emit(2)
    job.finish("result")
    job.emit(3)
    assert asyncio.run(_events(job)) == [1, 2]
    assert job.value == "result" and job.end is End.DONE


def test_only_the_first_end_counts() -> None:
    job: Job = Job(None)
    assert job.finish("first")
    assert not job.fail(RuntimeError("late"))
    job.cancel()
    assert job.end is End.DONE and not job.cancelled
    assert asyncio.run(job.result()) == "first"


def test_failure_is_raised_after_the_events() -> None:
    job: Job = Job(None)
    job.emit("before")
    job.fail(ValueError("broken"))

    async def read() -> list:
        seen = []
        with pytest.raises(ValueError, match="broken"):
            async for event in job.events():
                seen.append(event)
        return seen

    assert asyncio.run(read()) == ["before"]


def test_cancel_ends_for_the_reader_at_once_and_drops_later_events() -> None:
    job: Job = Job(None)
    woken = []
    job.on_cancel(lambda: woken.append("early"))
    job.cancel()
    job.cancel()
    job.emit("late")
    job.on_cancel(lambda: woken.append("late"))
    assert not job.finish("late") and job.end is End.CANCELLED
    assert woken == ["early", "late"]
    with pytest.raises(JobCancelled):
        asyncio.run(job.result())


def test_a_reader_that_waits_is_woken_from_another_thread() -> None:
    job: Job = Job(None)

    def produce() -> None:
        for number in range(200):
            job.emit(number)
        job.finish()

    async def read() -> list:
        thread = threading.Thread(target=produce)
        thread.start()
        seen = await asyncio.wait_for(_events(job), 10)
        thread.join()
        return seen

    assert asyncio.run(read()) == list(range(200))


def counted(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Grows by one whenever another thread calls into the loop."""
    calls: list[str] = []
    call = loop.call_soon_threadsafe

    def count(*args, **kwargs) -> asyncio.Handle:
        calls.append(threading.current_thread().name)
        return call(*args, **kwargs)

    loop.call_soon_threadsafe = count  # type: ignore[method-assign]
    return calls


def test_who_waits_for_the_end_is_not_woken_before() -> None:
    """Every wake-up takes the interpreter from the thread that computes."""

    async def read() -> list[str]:
        calls, job = counted(asyncio.get_running_loop()), Job[None](None)
        waiting = asyncio.create_task(job.result())
        await asyncio.sleep(0)
        for number in range(100):
            job.emit(number)
            await asyncio.sleep(0.0001)
        job.finish("done")
        assert await waiting == "done"
        return calls

    assert asyncio.run(read()) == ["wakeups"]


def test_many_readers_are_woken_together() -> None:
    jobs: list[Job] = [Job(None) for _ in range(50)]

    async def read() -> tuple[list[list], list[str]]:
        calls = counted(asyncio.get_running_loop())
        readers = [asyncio.create_task(_events(job)) for job in jobs]
        await asyncio.sleep(0)
        for job in jobs:  # without letting go of the interpreter
            job.emit("event")
        for job in jobs:
            job.finish()
        return [await reader for reader in readers], calls

    seen, calls = asyncio.run(read())
    assert seen == [["event"]] * 50
    assert 1 <= len(calls) < 50


def test_a_second_reader_is_refused() -> None:
    job: Job = Job(None)

    async def read_twice() -> None:
        first = asyncio.create_task(_events(job))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already has a reader"):
            await _events(job)
        job.finish()
        await first

    asyncio.run(read_twice())
