"""An Ollama answer from its running job: one object, or lines of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from litestar import Request, Response

from golem_host.http.requestlog import log_note
from golem_host.http.streams import stream_reply
from golem_host_chat.generation import Completion
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.ollama_bodies import NOTHING, Reply
from golem_host_chat.routes.reading import Ending, Piece
from golem_host_chat.routes.token_probabilities import TokenWriter
from golem_host_chat.routes.totals import fill_note

Further = Callable[[Completion], dict[str, Any]]
"""Members an API adds to the final object."""


async def respond(
    request: Request[Any, Any, Any],
    choices: Choices,
    reply: Reply,
    held: AbstractAsyncContextManager[Any],
    tokens: TokenWriter,
    *,
    stream: bool,
    further: Further = lambda completion: {},
) -> Response[bytes] | dict[str, Any]:
    """Answer with the one choice, streamed or not. `held` is the use of the model, entered again by a stream."""
    if stream:
        lines = _lines(request, choices, reply, held, tokens, further)
        return await stream_reply(request, choices.jobs, lines, framing="ndjson", dialect="ollama", done=None)
    [ending] = await choices.whole(request)
    fill_note(log_note(request), [ending.completion])
    logprobs = tokens.ollama(ending.completion.probabilities)
    return {**reply.final(ending.completion, ending), **logprobs, **further(ending.completion)}


async def _lines(
    request: Request[Any, Any, Any],
    choices: Choices,
    reply: Reply,
    held: AbstractAsyncContextManager[Any],
    tokens: TokenWriter,
    further: Further,
) -> AsyncIterator[dict[str, Any]]:
    async with held, aclosing(choices.events()) as events:
        async for _, event in events:
            if isinstance(event, Piece):
                yield {**reply.piece(event), **tokens.ollama(event.tokens)}
            elif isinstance(event, Ending):
                fill_note(log_note(request), [event.completion])
                yield {**reply.final(event.completion, NOTHING), **further(event.completion)}
