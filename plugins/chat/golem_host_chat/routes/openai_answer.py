"""An OpenAI answer from its running choices: one object, or a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any

from litestar import Request, Response

from golem_host.http.requestlog import log_note
from golem_host.http.streams import SSE_DONE, stream_reply
from golem_host_chat.generation import Progress
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.openai_bodies import Envelope, prompt_progress, timings, usage
from golem_host_chat.routes.openai_control import running
from golem_host_chat.routes.openai_fields import SharedFields
from golem_host_chat.routes.openai_shapes import Shape
from golem_host_chat.routes.reading import Ending, Piece
from golem_host_chat.routes.totals import Totals, fill_note
from golem_host_chat.thought_budget import ThoughtEnd


@dataclass(frozen=True)
class Answer:
    """The answer to one request. `held` is the use of the model: a stream outlives its handler and enters it again."""

    request: Request[Any, Any, Any]
    asked: SharedFields
    choices: Choices
    shape: Shape
    envelope: Envelope
    held: AbstractAsyncContextManager[Any]
    thoughts: ThoughtEnd | None = None
    """Ends what the choices think, where that was asked for."""

    async def send(self) -> Response[bytes] | dict[str, Any]:
        """Streamed or whole, as the request asks."""
        jobs = self.choices.jobs
        if self.asked.stream:
            return await stream_reply(
                self.request,
                jobs,
                self._running(),
                framing="sse",
                dialect="openai",
                done=SSE_DONE,
                ping_seconds=self.asked.ping_seconds,
            )
        endings = await self.choices.whole(self.request)
        wholes = [self.shape.whole(index, ending) for index, ending in enumerate(endings)]
        return self.envelope.whole(wholes, **self._sums(endings))

    async def _running(self) -> AsyncIterator[dict[str, Any]]:
        with running(self.envelope.id, self.thoughts):
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _chunks(self) -> AsyncGenerator[dict[str, Any]]:
        """Chunks as pieces arrive: each choice's opening first, its end last; timings ride on the very last chunk."""
        opened: set[int] = set()
        ended: dict[int, Ending] = {}
        async with self.held, aclosing(self.choices.events()) as events:
            async for index, event in events:
                if index not in opened:
                    opened.add(index)
                    opening = self.shape.opening(index)
                    if opening is not None:
                        yield self.envelope.chunk([opening])
                if isinstance(event, Progress):
                    yield self.envelope.chunk([self.shape.progress(index)], prompt_progress=prompt_progress(event))
                    continue
                if isinstance(event, Piece):
                    timed = {} if event.timings is None else {"timings": timings(Totals.timed(event.timings))}
                    yield self.envelope.chunk([self.shape.piece(index, event)], **timed)
                    continue
                ended[index] = event
                end = self.shape.end(index, event)
                if len(ended) < len(self.choices.jobs):
                    yield self.envelope.chunk([end])
                    continue
                sums = self._sums([ended[index] for index in sorted(ended)])
                if self.asked.include_usage:
                    yield self.envelope.chunk([end])
                    yield self.envelope.chunk([], **sums)
                else:
                    yield self.envelope.chunk([end], timings=sums["timings"])

    def _sums(self, endings: list[Ending]) -> dict[str, Any]:
        """Usage and timings of all choices; the request line gets them too."""
        completions = [ending.completion for ending in endings]
        fill_note(log_note(self.request), completions, self.asked.copies)
        totals = Totals.of(completions, self.asked.copies)
        return {"usage": usage(totals), "timings": timings(totals)}
