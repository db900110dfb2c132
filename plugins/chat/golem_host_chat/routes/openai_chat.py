"""`POST /v1/chat/completions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host_chat.routes.chat_request import ChatRequest
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.openai_answer import Answer
from golem_host_chat.routes.openai_bodies import Envelope
from golem_host_chat.routes.openai_shapes import ChatShape
from golem_host_chat.routes.token_probabilities import TokenWriter

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime


async def chat_completions(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Answer a conversation."""
    asked = ChatRequest.read(Fields(await read_json(request)))
    model = host.registry.resolve(asked.shared.model, "chat")
    async with host.registry.use(model, asked.shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        with runtime.lane.arriving():
            draw = await off_loop(request, lambda: asked.draw(runtime), long=asked.takes_long)
        envelope = Envelope(
            prefix="chatcmpl-",
            kind="chat.completion",
            chunk_kind="chat.completion.chunk",
            model=model.name,
            version=host.version,
        )
        shape = ChatShape(TokenWriter(runtime.tokenizer, draw.extras.probs))
        choices = Choices(runtime.lane, draw)
        held = host.registry.use(model, asked.shared.keep_alive)
        end = None if draw.reading.budget is None else draw.reading.budget.end
        return await Answer(request, asked.shared, choices, shape, envelope, held, end).send()
