"""A conversation's prompt, not answered: llama-server's `/apply-template`, and `/v1/chat/completions/input_tokens`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from litestar import Request

from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host_chat.routes.chat_request import ChatRequest

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime

Result = TypeVar("Result")


async def apply_template(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """The text that the conversation becomes."""
    asked = ChatRequest.read(Fields(await read_json(request)))
    return {"prompt": await with_runtime(request, host, asked, asked.text)}


async def input_tokens(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """How many tokens that is."""
    asked = ChatRequest.read(Fields(await read_json(request)))
    return counted(await with_runtime(request, host, asked, asked.count))


def counted(tokens: int) -> dict[str, Any]:
    return {"input_tokens": tokens, "object": "response.input_tokens"}


async def with_runtime(
    request: Request[Any, Any, Any], host: Host, asked: ChatRequest, work: Callable[[ChatRuntime], Result]
) -> Result:
    """What `work` makes of the model that is asked, beside the event loop when the request is long."""
    model = host.registry.resolve(asked.shared.model, "chat")
    async with host.registry.use(model, asked.shared.keep_alive) as used:
        return await off_loop(request, lambda: work(cast("ChatRuntime", used)))
