"""The jobs of one request: one per choice, drawn side by side from one or several prompts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

from litestar import Request

from golem_host.http.disconnect import result_or_disconnect
from golem_host.lanes.job import Job
from golem_host.lanes.lane import Lane
from golem_host_chat.constraints.constraint import Constraint
from golem_host_chat.generation import NO_EXTRAS, Extras, Generation, Progress
from golem_host_chat.routes.reading import PLAIN, AnswerReader, Ending, Piece, Reading
from golem_host_chat.sampling_params import SamplingParams

SEED_RANGE = 1 << 32


@dataclass(frozen=True)
class Draw:
    """What a request asks to draw: `copies` answers to each of `prompts` (token ids), all under the same rules.

    `context` are the positions prompt and answer may take, None for the slot's.
    Copies of one prompt read it once. With a seed, copy i uses seed + i: copies differ, and each can be had again.
    `reading` says what the answers are made of, `constraint` what they must look like.
    """

    prompts: list[list[int]]
    params: SamplingParams
    copies: int = 1
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    reuse: bool = True
    reading: Reading = PLAIN
    extras: Extras = NO_EXTRAS
    context: int | None = None
    constraint: Constraint | None = None

    def jobs(self) -> list[Job[Generation]]:
        """One job per choice, in the order of the choices' indexes."""
        jobs: list[Job[Generation]] = []
        for prompt in self.prompts:
            first: Job[Generation] | None = None
            for copy in range(self.copies):
                job = Job(
                    Generation(
                        prompt,
                        self._params(copy),
                        max_tokens=self._most(prompt),
                        stops=self.stops,
                        reuse=self.reuse,
                        follows=None if first is None else first.id,
                        followed=first is None and self.copies > 1,
                        preserve=self.reading.preserve,
                        extras=self.extras,
                        thoughts=self.reading.budget,
                        complete=self.reading.watch if self.reading.single else None,
                        constraint=self.constraint,
                    )
                )
                first = first or job
                jobs.append(job)
        return jobs

    def _most(self, prompt: list[int]) -> int | None:
        limits = (self.max_tokens, None if self.context is None else self.context - len(prompt))
        return min((limit for limit in limits if limit is not None), default=None)

    def _params(self, copy: int) -> SamplingParams:
        if self.params.seed is None or not copy:
            return self.params
        return replace(self.params, seed=(self.params.seed + copy) % SEED_RANGE)


class Choices:
    """The submitted jobs of one request."""

    def __init__(self, lane: Lane, draw: Draw) -> None:
        """Submit all; raises what the lane raises (`Overloaded`), with nothing left in its queue."""
        self.jobs = draw.jobs()
        self._reading = draw.reading
        try:
            for job in self.jobs:
                lane.submit(job)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Stop whatever has not ended; harmless afterwards."""
        for job in self.jobs:
            job.cancel()

    async def whole(self, request: Request[Any, Any, Any]) -> list[Ending]:
        """All answers, whole, in the order of their indexes. Raises as `result_or_disconnect`."""
        return [self._reading.whole(completion) for completion in await result_or_disconnect(request, self.jobs)]

    async def events(self) -> AsyncGenerator[tuple[int, Piece | Progress | Ending]]:
        """Pieces and ends as they come, each with its choice's index. One that fails ends all with its error."""
        arrived: asyncio.Queue[tuple[int, Piece | Progress | Ending | Exception]] = asyncio.Queue()

        async def read(index: int, job: Job[Generation]) -> None:
            reader = AnswerReader(self._reading)
            try:
                async for event in job.events():
                    for piece in [event] if isinstance(event, Progress) else reader.take(event):
                        arrived.put_nowait((index, piece))
                for piece in reader.last():
                    arrived.put_nowait((index, piece))
                arrived.put_nowait((index, reader.ending(job.value)))
            except Exception as error:
                arrived.put_nowait((index, error))

        readers = [asyncio.create_task(read(index, job)) for index, job in enumerate(self.jobs)]
        running = len(readers)
        try:
            while running:
                index, event = await arrived.get()
                if isinstance(event, Exception):
                    raise event
                running -= isinstance(event, Ending)
                yield index, event
        finally:
            self.cancel()
            for reader in readers:
                reader.cancel()
