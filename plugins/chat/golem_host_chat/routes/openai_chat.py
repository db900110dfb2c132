"""`POST /v1/chat/completions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host_chat.routes.chat_prompt import Framing, conversation_tokens
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.openai_answer import Answer
from golem_host_chat.routes.openai_bodies import Envelope
from golem_host_chat.routes.openai_fields import draw_of, shared_fields
from golem_host_chat.routes.openai_shapes import ChatShape
from golem_host_chat.routes.thinking import openai_thinking
from golem_host_chat.routes.unserved import CHAT, V1, refuse_unserved

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime


async def chat_completions(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Answer a conversation."""
    fields = Fields(await read_json(request))
    refuse_unserved(fields, CHAT, V1)
    shared = shared_fields(fields)
    framing = _framing(fields)
    messages = _messages(fields)
    model = host.registry.resolve(shared.model, "chat")
    async with host.registry.use(model, shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        with runtime.lane.arriving():
            draw = await off_loop(
                request,
                lambda: draw_of(
                    fields, shared, runtime, [conversation_tokens(runtime, messages, framing, limit=runtime.context)]
                ),
            )
        envelope = Envelope(
            prefix="chatcmpl-",
            kind="chat.completion",
            chunk_kind="chat.completion.chunk",
            model=model.name,
            version=host.version,
        )
        choices = Choices(runtime.lane, draw)
        held = host.registry.use(model, shared.keep_alive)
        return await Answer(request, shared, choices, ChatShape(), envelope, held).send()


def _messages(fields: Fields) -> list[Any]:
    messages = fields.array("messages")
    if messages is None:
        raise BadRequest("'messages' is required", param="messages")
    if not messages:
        raise fields.fault("messages", "the conversation is empty; it needs at least one message")
    return messages


def _framing(fields: Fields) -> Framing:
    continued = fields.value("continue_final_message")
    if continued in ("content", "reasoning_content"):
        if continued == "reasoning_content":
            raise fields.fault("continue_final_message", "continuing reasoning is not served yet; 'content' is")
        continued = True
    else:
        continued = fields.boolean("continue_final_message")
    add_generation_prompt = fields.boolean("add_generation_prompt")
    if continued and add_generation_prompt:
        raise fields.fault(
            "continue_final_message", "Cannot set both add_generation_prompt and continue_final_message to true."
        )
    thinking, kwargs = openai_thinking(fields)
    return Framing(
        thinking=thinking,
        kwargs=kwargs,
        continue_final=continued,
        add_generation_prompt=add_generation_prompt is not False,
    )
