"""Checks of answers in company: the same bits as alone, each to its own request, in pieces, one end each."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest

from golem_host.api import OneShotLane, StepwiseLane
from golem_host.testing.conformance.subject import Alone, Served, Subject, fail
from golem_host.testing.conformance.watch import watching_loop


class TogetherChecks(Subject):
    """Answers of requests that share passes."""

    def test_batch_equals_alone(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for alone, told in await self._company(served):
                strangers = [each for each in told if each not in [one.said for one in alone]]
                if strangers:
                    fail(
                        f"requests that share passes are answered otherwise than alone:\n{strangers[0]!r:.600}\n"
                        f"alone: {' or '.join(f'{one.said!r:.300}' for one in alone[:3])}\n"
                        "Sums must not depend on what else is in a pass: no reductions over the batch, no padding that "
                        "takes part; make members that may differ `volatile`."
                    )
                self._shared_passes(served, alone)

        serve(scenario)

    def _shared_passes(self, served: Served, alone: list[Alone]) -> None:
        """Answers in company say nothing when each request had its passes for itself."""
        lane = served.lane(alone[0])
        if self.seats > 1 and isinstance(lane, StepwiseLane | OneShotLane) and served.gate(lane).widest < 2:
            fail(
                f"{len(alone)} requests waited together for {lane.name}, and no pass held two of them, so this test "
                "has compared nothing: give `samples` that are small beside what a pass takes, or let `settings` serve "
                "with larger passes or more seats; where the model computes one request at a time, say `seats = 1`"
            )

    def test_order(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for alone, told in await self._company(served):
                if all(each.said == alone[0].said for each in alone):
                    pytest.skip("all samples have one answer: with two that differ the order can be checked")
                for own, each in zip(alone, told, strict=True):
                    if each != own.said and any(each == other.said for other in alone):
                        fail(f"{own.sample} got the answer of another request: {each!r:.400}, not {own.said!r:.400}")

        serve(scenario)

    async def _company(self, served: Served) -> list[tuple[list[Alone], list[Any]]]:
        """For each lane the samples asked together, whole and in pieces mixed, and what each was told."""
        computed = await served.computed()
        streams = [each for each in computed if each.sample.stream is not None and each.sample.told is not None]
        computed = [*computed, *(replace(each, sample=each.sample.streamed()) for each in streams)]
        found = []
        for model in dict.fromkeys(each.model for each in computed):
            asked = [each for each in computed if each.model == model]
            asked = (asked * -(-self.company // len(asked)))[: max(self.company, len(asked))]
            gate = served.gate(served.lane(asked[0]))
            gate.hold("before")
            callers = [(await served.queued(each.sample))[0] for each in asked]
            gate.open()
            for caller, each in zip(callers, asked, strict=True):
                await served.until(lambda: caller.done, f"{each.sample} was never answered in company")  # noqa: B023
                if caller.response.status_code != 200:
                    fail(f"{each.sample} in company: {caller.response.status_code} {caller.response.text[:300]}")
            found.append((asked, [served.said(e.sample, c.response) for e, c in zip(asked, callers, strict=True)]))
        return found

    def test_streamed_equals_whole(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            compared = [each for each in self.all_samples() if each.stream is not None and each.told is not None]
            if not compared:
                pytest.skip("no sample has both a streamed form and `told`")
            for sample in compared:
                streamed, whole = await served.good(sample.streamed()), await served.good(sample)
                if whole != streamed:
                    fail(f"{sample} in pieces tells {streamed!r:.400}\nand whole {whole!r:.400}")

        serve(scenario)

    def test_progress(self, serve: Any) -> None:
        """A streamed answer tells something before its computing has ended."""

        async def scenario(served: Served) -> None:
            for each in await served.streams():
                gate = served.gate(served.lane(each))
                gate.hold("within")
                caller, jobs = await served.queued(each.sample.streamed())
                while not caller.first.is_set() and any(job.end is None for job in jobs):
                    await next_pass(served, each, caller, jobs)
                await served.until(
                    lambda: gate.waiting or all(job.end is not None for job in jobs),  # noqa: B023
                    f"{each.sample} is not computed any more",
                )  # the pass that told the first piece may be the last, and not be over yet
                if all(job.end is not None for job in jobs):
                    fail(
                        f"{each.sample} sends the first piece when all is computed: `job.emit` parts as they come and "
                        "answer with `golem_host.api.stream_reply` (a sample of one pass is too short for this check)"
                    )
                if not served.users(each):
                    fail(
                        f"{each.sample} is being streamed, and its request does not count as using {each.model}, which "
                        "can be unloaded under it. Leave `async with host.registry.use(model)` when the stream ends: "
                        "inside the generator, or with an `AsyncExitStack` that it takes over by `pop_all`"
                    )
                gate.open()
                await served.until(lambda: caller.done, f"{each.sample} never ended")  # noqa: B023

        serve(scenario)

    def test_jobs_end_once(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            await self._company(served)
            if served.records.faults:
                fail(
                    f"{served.records.faults[0]} ({len(served.records.faults)} such): a job has one end; free its seat "
                    "in the pass that ends it"
                )

        serve(scenario)

    def test_jobs_are_let_go(self, serve: Any) -> None:
        """What was asked and answered is not kept: a host that runs for months must not grow."""

        async def scenario(served: Served) -> None:
            computed = await served.computed()
            rounds = -(-(2 * self.seats + 2) // len(computed))  # a seat may keep the last one it had
            before = len(served.records)
            for _ in range(rounds):
                for each in computed:
                    await served.answer(each.sample)
            made = len(served.records) - before
            kept = served.records.kept(before)
            if kept > made / 2:
                holders = {
                    type(each).__name__ for job in served.records.jobs(before)[:3] for each in gc.get_referrers(job)
                }
                fail(
                    f"{kept} of {made} jobs are kept after their answers, by objects of type "
                    f"{', '.join(sorted(holders))}: forget a job when it has ended"
                )

        serve(scenario)

    def test_event_loop_is_never_blocked(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            samples = self.all_samples()
            samples += [sample.streamed() for sample in samples if sample.stream is not None]
            for sample in samples:
                await served.good(sample)  # the first request may import
            async with watching_loop() as watch:
                for sample in samples:
                    await served.good(sample)
            if watch.stood is not None:
                fail(
                    "the event loop stood still, and with it every other client, here:\n"
                    f"{watch.stood}Compute in a lane, or beside the loop with `golem_host.api.off_loop`."
                )

        serve(scenario)


async def next_pass(served: Served, each: Alone, caller: Any, jobs: list[Any]) -> None:
    """Let one pass go, and wait until the next one is held, the jobs have ended, or a piece has come."""
    gate = served.gate(served.lane(each))

    def over() -> bool:
        return caller.done or caller.first.is_set() or all(job.end is not None for job in jobs)

    await served.until(lambda: gate.waiting or over(), f"{each.sample} is not computed any more")
    if over():
        return
    gate.allow_one()
    await served.until(lambda: gate.waiting or over(), f"{each.sample} is not computed any more")
    for _ in range(10):  # what the pass told is on its way
        if not over():
            await served.turn()
