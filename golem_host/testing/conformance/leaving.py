"""Checks of clients that leave, queues that are full, passes and requests that fail."""

from __future__ import annotations

from typing import Any

import pytest

from golem_host.api import OneShotLane, StepwiseLane
from golem_host.testing.conformance.caller import Caller
from golem_host.testing.conformance.envelopes import envelope_fault
from golem_host.testing.conformance.gate import PassGate
from golem_host.testing.conformance.subject import Alone, Served, Subject, fail
from golem_host.testing.conformance.together import next_pass

QUEUE = 4
"""Requests that may wait in the check of full queues."""


class LeavingChecks(Subject):
    """After each of these the lane is free and the next request is answered as before."""

    def test_cancel_queued(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for each in await self._by_lane(served):
                gate = served.gate(served.lane(each))
                gate.hold("before")
                caller, jobs = await served.queued(each.sample)
                await self._left(served, each, caller, jobs, "waited in the queue")
                gate.open()
                await self._free(served, each)

        serve(scenario)

    def test_cancel_running(self, serve: Any) -> None:
        """More often than there are seats, so that one that is kept each time is missed at the end."""

        async def scenario(served: Served) -> None:
            for each in await self._by_lane(served):
                lane = served.lane(each)
                gate = served.gate(lane)
                for _ in range(self.seats + 1):
                    gate.hold("within")
                    caller, jobs = await served.queued(each.sample)
                    if not isinstance(lane, StepwiseLane | OneShotLane):
                        pytest.skip(f"passes of a {type(lane).__name__} cannot be held")
                    await served.until(
                        lambda: gate.waiting,  # noqa: B023
                        f"{each.sample} got no seat although nobody else computes: a seat was kept for a client that "
                        "had left. Free it in the stepper's `release`.",
                    )
                    await self._left(served, each, caller, jobs, "was computed")
                    gate.open()
                    await served.idle(lane, f"the lane is not free after the client of {each.sample} left")
                await served.still_answers(each, "a client that left")

        serve(scenario)

    def test_cancel_streamed(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for each in await served.streams():
                gate = served.gate(served.lane(each))
                gate.hold("within")
                caller, jobs = await served.queued(each.sample.streamed())
                while not caller.first.is_set() and not caller.done and any(job.end is None for job in jobs):
                    await next_pass(served, each, caller, jobs)
                await self._left(served, each, caller, jobs, "was told in pieces")
                gate.open()
                await self._free(served, each)

        serve(scenario)

    async def _left(self, served: Served, each: Alone, caller: Any, jobs: list[Any], when: str) -> None:
        """The client leaves: its jobs are cancelled and its request ends, though no pass goes on."""
        caller.leave()
        await served.until(
            lambda: all(job.cancelled or job.end is not None for job in jobs),
            f"the client of {each.sample} left while its answer {when}, and its job was not cancelled: wait with "
            "`golem_host.api.result_or_disconnect`, or stream with `golem_host.api.stream_reply`",
        )
        await served.until(lambda: caller.done, f"the client of {each.sample} left, and its request never ended")

    async def _free(self, served: Served, each: Alone) -> None:
        await served.idle(served.lane(each), f"the lane is not free after the client of {each.sample} left")
        await served.still_answers(each, "a client that left")

    def test_overload(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for each in await self._by_lane(served):
                gate = served.gate(served.lane(each))
                gate.hold("before")
                waiting = []
                refused = None
                for _ in range(QUEUE + self.seats + 2):
                    before = len(served.records)
                    caller = served.call(each.sample)
                    await served.until(
                        lambda: caller.done or len(served.records) > before,  # noqa: B023
                        f"{each.sample} neither waits in a queue nor is refused",
                    )
                    if caller.done:
                        refused = caller
                        break
                    waiting.append(caller)
                if refused is None or served.lane(each).queue_limit != QUEUE:
                    fail(
                        f"{len(waiting)} requests wait with --queue {QUEUE}: give the lane "
                        '`queue_limit=settings["queue"]`'
                    )
                for response in await self._also_streamed(served, each, refused.response):
                    self._busy(each, response)
                gate.open()
                for caller in waiting:
                    await served.until(lambda: caller.done, f"{each.sample} waited and was never answered")  # noqa: B023
                    if served.said(each.sample, caller.response) != each.said:
                        fail(f"{each.sample} waited in a full queue and was answered {caller.response.text[:300]}")
                await self._free(served, each)

        serve(scenario, queue=str(QUEUE))

    async def _also_streamed(self, served: Served, each: Alone, refused: Any) -> list[Any]:
        if each.sample.stream is None:
            return [refused]
        return [refused, await served.answer(each.sample.streamed())]

    def _busy(self, each: Alone, response: Any) -> None:
        dialect = self.route_of(each.sample).dialect
        if response.status_code != 503 or "retry-after" not in response.headers:
            fail(
                f"with a full queue {each.sample} is answered {response.status_code}, not 503 with Retry-After: "
                f"{response.text[:300]}\nLet `Overloaded` pass that `lane.submit` raises."
            )
        fault = envelope_fault(response, dialect)
        if fault is not None:
            fail(f"{each.sample} with a full queue: an error of the dialect {dialect!r} has another shape: {fault}")

    def test_poisoned_request(self, serve: Any) -> None:
        """Of requests that wait together, one cannot be computed: it alone fails."""

        async def scenario(served: Served) -> None:
            for each in await self._by_lane(served):
                gate = served.gate(served.lane(each))
                gate.hold("before")
                first, _ = await served.queued(each.sample)
                bad, jobs = await served.queued(each.sample)
                last, _ = await served.queued(each.sample)
                if not self.poison(jobs[0]):
                    gate.poison(jobs[0])
                gate.open()
                await self._failed(served, each, bad, "its job raises")
                for caller in (first, last):
                    await served.until(lambda: caller.done, f"{each.sample} beside a request that fails never ended")  # noqa: B023
                    if served.said(each.sample, caller.response) != each.said:
                        fail(
                            f"{each.sample} beside a request that fails is answered {caller.response.text[:300]}; "
                            "end the one at fault with `job.fail`, and let a batch be run again without it"
                        )
                await self._free(served, each)

        serve(scenario)

    def poison(self, job: Any) -> bool:
        """Damage the request of a waiting job so that computing it raises. The default leaves that to the suite, which
        lets its admission to a seat raise, or the batch that has it."""
        return False

    def test_failed_pass(self, serve: Any) -> None:
        """A pass raises in the middle of an answer: that request fails, the lane and the next one do not."""

        async def scenario(served: Served) -> None:
            for each in await self._by_lane(served):
                lane = served.lane(each)
                gate = served.gate(lane)
                number = each.passes // 2 + 1
                caller = await self._beside_failure(served, each, gate, number)
                while gate.fails and number > 1:  # passes that last as long as time allows may be fewer than before
                    number //= 2
                    caller = await self._beside_failure(served, each, gate, number)
                await self._failed(served, each, caller, "a pass raises")
                if lane.failed is not None:
                    fail(f"after a pass that failed the lane is closed: {lane.failed}; the stepper's `recover` raised")
                await self._free(served, each)

        serve(scenario)

    async def _beside_failure(self, served: Served, each: Alone, gate: PassGate, number: int) -> Caller:
        """Ask while pass `number` is to raise, until the answer is there."""
        gate.fail_pass(number)
        caller = served.call(each.sample)
        await served.until(lambda: caller.done, f"{each.sample}, of which a pass raises, never ended")
        return caller

    async def _failed(self, served: Served, each: Alone, caller: Any, why: str) -> None:
        await served.until(lambda: caller.done, f"{each.sample}, of which {why}, never ended")
        response, dialect = caller.response, self.route_of(each.sample).dialect
        if response.status_code < 500:
            fail(f"{each.sample}, of which {why}, is answered {response.status_code}: {response.text[:300]}")
        fault = envelope_fault(response, dialect)
        if fault is not None:
            fail(f"{each.sample}, of which {why}: an error of the dialect {dialect!r} has another shape: {fault}")

    async def _by_lane(self, served: Served) -> list[Alone]:
        """A sample of each lane, that of the fewest jobs."""
        found: dict[str, Alone] = {}
        for each in sorted(await served.computed(), key=lambda each: each.jobs):
            found.setdefault(each.model or "", each)
        return list(found.values())
