"""`POST /v1/responses` and `/v1/responses/input_tokens`: OpenAI's Responses API as far as it keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import RequestError
from golem_host.http.body import read_json
from golem_host.http.envelopes import as_request_error
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host.http.streams import stream_reply
from golem_host_chat.routes.chat_request import ChatRequest
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.llama_prompts import counted, with_runtime
from golem_host_chat.routes.reading import Ending, Piece
from golem_host_chat.routes.responses_bodies import Reply
from golem_host_chat.routes.responses_output import Output
from golem_host_chat.routes.responses_request import translate
from golem_host_chat.routes.token_probabilities import TokenWriter
from golem_host_chat.routes.totals import fill_note

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime


async def responses(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Answer a conversation of items."""
    fields = Fields(await read_json(request))
    translated = await off_loop(request, lambda: translate(fields))
    with translated.named_as_written():
        asked = ChatRequest.read(Fields(translated.body))
    model = host.registry.resolve(asked.shared.model, "chat")
    async with host.registry.use(model, asked.shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        with translated.named_as_written(), runtime.lane.arriving():
            draw = await off_loop(request, lambda: asked.draw(runtime), long=asked.takes_long)
        reply = Reply(fields, draw.params, model.name)
        tokens = TokenWriter(runtime.tokenizer, draw.extras.probs)
        answer = _Answer(request, runtime, Choices(runtime.lane, draw), reply, tokens)
        if asked.shared.stream:
            held = host.registry.use(model, asked.shared.keep_alive)
            events = answer.events(held)
            return await stream_reply(
                request,
                answer.choices.jobs,
                events,
                framing="events",
                dialect="openai",
                done=None,
                ping_seconds=asked.shared.ping_seconds,
            )
        return await answer.whole()


async def input_tokens(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """How many tokens the prompt of these items has; nothing is drawn."""
    fields = Fields(await read_json(request))
    translated = await off_loop(request, lambda: translate(fields))
    with translated.named_as_written():
        asked = ChatRequest.read(Fields(translated.body))
        return counted(await with_runtime(request, host, asked, asked.count))


class _Answer:
    def __init__(
        self, request: Request[Any, Any, Any], runtime: ChatRuntime, choices: Choices, reply: Reply, tokens: TokenWriter
    ) -> None:
        self.choices = choices
        self._request = request
        self._runtime = runtime
        self._reply = reply
        self._output = Output(tokens)

    async def whole(self) -> dict[str, Any]:
        [ending] = await self.choices.whole(self._request)
        for piece in ending.pieces:
            list(self._output.take(piece))
        list(self._output.end(complete=ending.finish != "length"))
        return await self._ended(ending)

    async def events(self, held: AbstractAsyncContextManager[Any]) -> AsyncIterator[dict[str, Any]]:
        """The events of a stream, numbered. A failure after the first of them is an event, too."""
        numbers = count()
        begun = False
        try:
            async with held, aclosing(self._told()) as told:
                async for event in told:
                    begun = True
                    yield {**event, "sequence_number": next(numbers)}
        except Exception as error:
            if not begun:
                raise
            yield {**self._failure(as_request_error(error)), "sequence_number": next(numbers)}

    async def _told(self) -> AsyncGenerator[dict[str, Any]]:
        begun = False
        async with aclosing(self.choices.events()) as events:
            async for _, event in events:
                if not begun:
                    begun = True
                    yield {"type": "response.created", "response": self._reply.begun()}
                    yield {"type": "response.in_progress", "response": self._reply.begun()}
                if isinstance(event, Piece):
                    for told in self._output.take(event):
                        yield told
                elif isinstance(event, Ending):
                    for told in self._output.end(complete=event.finish != "length"):
                        yield told
                    response = await self._ended(event)
                    yield {"type": f"response.{response['status']}", "response": response}

    async def _ended(self, ending: Ending) -> dict[str, Any]:
        fill_note(log_note(self._request), [ending.completion])
        thought = await asyncio.to_thread(self._count, ending.reasoning) if ending.reasoning else 0
        return self._reply.ended(self._output.items, ending, min(thought, ending.completion.completion_tokens))

    def _count(self, text: str) -> int:
        return len(self._runtime.tokenizer.encode(text, add_special=False, parse_special=False))

    def _failure(self, error: RequestError) -> dict[str, Any]:
        """Clients read the members of the event, or its `error`."""
        log_note(self._request).error = error.message
        members = {"message": error.message, "code": error.code, "param": error.param}
        return {"type": "error", **members, "error": {"type": error.type, **members, **error.extra}}
