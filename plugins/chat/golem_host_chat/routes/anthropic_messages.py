"""`POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's Messages API."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host.http.streams import stream_reply
from golem_host_chat.routes.anthropic_output import Blocks
from golem_host_chat.routes.anthropic_request import shows_thinking, translate
from golem_host_chat.routes.chat_request import ChatRequest
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.llama_prompts import with_runtime
from golem_host_chat.routes.reading import Ending, Piece
from golem_host_chat.routes.totals import fill_note

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime


async def messages(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Answer a conversation of messages of content blocks."""
    fields = Fields(await read_json(request))
    blocks = Blocks(shows_thinking=shows_thinking(fields))
    translated = await off_loop(request, lambda: translate(fields))
    with translated.named_as_written():
        asked = ChatRequest.read(Fields(translated.body))
    model = host.registry.resolve(asked.shared.model, "chat")
    async with host.registry.use(model, asked.shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        with translated.named_as_written(), runtime.lane.arriving():
            draw = await off_loop(request, lambda: asked.draw(runtime), long=asked.takes_long)
        choices = Choices(runtime.lane, draw)
        answer = _Answer(request, choices, blocks, model.name, prompt_tokens=len(draw.prompts[0]))
        if asked.shared.stream:
            events = answer.events(host.registry.use(model, asked.shared.keep_alive))
            return await stream_reply(
                request,
                choices.jobs,
                events,
                framing="events",
                dialect="anthropic",
                done=None,
                ping_seconds=asked.shared.ping_seconds,
            )
        return await answer.whole()


async def count_tokens(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """How many tokens the prompt of these messages has; nothing is drawn."""
    fields = Fields(await read_json(request))
    translated = await off_loop(request, lambda: translate(fields))
    with translated.named_as_written():
        asked = ChatRequest.read(Fields(translated.body))
        return {"input_tokens": await with_runtime(request, host, asked, asked.count)}


@dataclass(frozen=True)
class _Answer:
    request: Request[Any, Any, Any]
    choices: Choices
    blocks: Blocks
    model: str
    prompt_tokens: int

    async def whole(self) -> dict[str, Any]:
        [ending] = await self.choices.whole(self.request)
        for piece in ending.pieces:
            list(self.blocks.take(piece))
        end = self._end(ending)
        return {**self._message(self.blocks.blocks), **end["delta"], "usage": end["usage"]}

    async def events(self, held: AbstractAsyncContextManager[Any]) -> AsyncIterator[dict[str, Any]]:
        """The events of a stream. How much of the prompt was read anew is known at its end; until then, all of it."""
        begun = False
        async with held, aclosing(self.choices.events()) as events:
            async for _, event in events:
                if not begun:
                    begun = True
                    yield {"type": "message_start", "message": self._message([])}
                if isinstance(event, Piece):
                    for told in self.blocks.take(event):
                        yield told
                elif isinstance(event, Ending):
                    for told in self.blocks.end():
                        yield told
                    yield {"type": "message_delta", **self._end(event)}
                    yield {"type": "message_stop"}

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": "msg_" + secrets.token_hex(12),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(self.prompt_tokens, 0, 0),
        }

    def _end(self, ending: Ending) -> dict[str, Any]:
        completion = ending.completion
        fill_note(log_note(self.request), [completion])
        word = completion.stop_word if ending.finish == "stop" else None
        reasons = {"stop": "end_turn" if word is None else "stop_sequence", "length": "max_tokens"}
        return {
            "delta": {"stop_reason": reasons.get(ending.finish, "tool_use"), "stop_sequence": word},
            "usage": _usage(completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens),
        }


def _usage(prompt: int, cached: int, drawn: int) -> dict[str, Any]:
    """`input_tokens` are those that were read for this answer; the others come from what was kept."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": drawn,
    }
