"""`POST /api/chat`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host_chat.routes.chat_prompt import Framing, conversation_prompt
from golem_host_chat.routes.choices import Choices, Draw
from golem_host_chat.routes.ollama_answer import respond
from golem_host_chat.routes.ollama_bodies import Reply, chat_part
from golem_host_chat.routes.ollama_fields import SharedFields, shared_fields
from golem_host_chat.routes.residency import load_or_unload
from golem_host_chat.routes.thinking import require_thinking
from golem_host_chat.routes.token_probabilities import TokenWriter
from golem_host_chat.routes.tools import ollama_tools
from golem_host_chat.routes.truncation import fit
from golem_host_chat.routes.unserved import OLLAMA, refuse_unserved

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime

log = logging.getLogger("golem_host.chat")


async def chat(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Answer a conversation; without messages load or unload the model."""
    fields = Fields(await read_json(request))
    refuse_unserved(fields, OLLAMA)
    shared = shared_fields(fields)
    framing = shared.framing(ollama_tools(fields))
    messages = _messages(fields)
    if not shared.model:
        raise BadRequest("model is required", param="model")
    model = host.registry.resolve(shared.model, "chat")
    reply = Reply(shared.model, chat_part)
    if not messages:
        return await load_or_unload(host, model, shared.keep_alive, reply)
    async with host.registry.use(model, shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        reply.loaded()
        with runtime.lane.arriving():
            draw, dropped = await off_loop(
                request, lambda: _prepare(shared, framing, runtime, messages), long=shared.takes_long
            )
        if dropped:
            log.info("%s: a conversation was too long; its oldest %d messages were left out", model.name, dropped)
            log_note(request).extra["messages left out"] = dropped
        tokens = TokenWriter(runtime.tokenizer, shared.probs)
        choices = Choices(runtime.lane, draw)
        held = host.registry.use(model, shared.keep_alive)
        return await respond(request, choices, reply, held, tokens, stream=shared.stream)


def _prepare(shared: SharedFields, framing: Framing, runtime: ChatRuntime, messages: list[Any]) -> tuple[Draw, int]:
    require_thinking(runtime, shared.thinking, shared.model)
    limit = shared.options.limit(runtime)
    fitted = fit(
        messages,
        lambda kept: conversation_prompt(runtime, kept, framing, limit=limit),
        limit=limit,
        truncate=shared.truncate,
    )
    return shared.draw(runtime, fitted.prompt, framing), fitted.dropped


def _messages(fields: Fields) -> list[Any]:
    """The messages; in this API one without content has an empty one."""
    messages = fields.array("messages") or []
    return [{"content": "", **message} if isinstance(message, dict) else message for message in messages]
