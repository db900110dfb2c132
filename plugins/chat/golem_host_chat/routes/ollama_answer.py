"""An Ollama answer from its running job: one object, or lines of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from litestar import Request, Response

from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.requestlog import log_note
from golem_host.http.streams import stream_reply
from golem_host_chat.generation import Completion, Delta
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.ollama_bodies import Reply
from golem_host_chat.routes.totals import fill_note

Further = Callable[[Completion], dict[str, Any]]
"""Members an API adds to the final object."""


async def respond(
    request: Request[Any, Any, Any],
    choices: Choices,
    reply: Reply,
    held: AbstractAsyncContextManager[Any],
    *,
    stream: bool,
    further: Further = lambda completion: {},
) -> Response[bytes] | dict[str, Any]:
    """Answer with the one choice, streamed or not. `held` is the use of the model, entered again by a stream."""
    if stream:
        lines = _lines(request, choices, reply, held, further)
        return await stream_reply(request, choices.jobs, lines, framing="ndjson", dialect="ollama", done=None)
    [completion] = await result_or_disconnect(request, choices.jobs)
    fill_note(log_note(request), [completion])
    return {**reply.final(completion, completion.text), **further(completion)}


async def _lines(
    request: Request[Any, Any, Any],
    choices: Choices,
    reply: Reply,
    held: AbstractAsyncContextManager[Any],
    further: Further,
) -> AsyncIterator[dict[str, Any]]:
    async with held, aclosing(choices.events()) as events:
        async for _, event in events:
            if isinstance(event, Delta):
                yield reply.piece(event.text)
            else:
                fill_note(log_note(request), [event])
                yield {**reply.final(event, ""), **further(event)}
