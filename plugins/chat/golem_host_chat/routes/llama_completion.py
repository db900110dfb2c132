"""llama-server's own `POST /completion` (`/completions`): the prompt as it stands, in its own shape of answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host_chat.routes.choices import Choices
from golem_host_chat.routes.llama_answer import Asked, NativeAnswer
from golem_host_chat.routes.openai_fields import draw_of, require_queue
from golem_host_chat.routes.prompt_shapes import prompt_segments, prompt_tokens

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime


async def completion(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Continue one prompt, or several, whose answers come as an array."""
    fields = Fields(await read_json(request))
    asked = Asked.read(fields)
    prompts = prompt_segments(fields.value("prompt"))
    model = host.registry.resolve(asked.shared.model, "chat")
    async with host.registry.use(model, asked.shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        require_queue(len(prompts), asked.shared, runtime)
        with runtime.lane.arriving():
            draw = await off_loop(
                request,
                lambda: draw_of(
                    fields,
                    asked.shared,
                    runtime,
                    [prompt_tokens(runtime.tokenizer, segments, runtime.context) for segments in prompts],
                ),
                long=asked.shared.takes_long,
            )
        choices = Choices(runtime.lane, draw)
        held = host.registry.use(model, asked.shared.keep_alive)
        return await NativeAnswer(request, asked, draw, choices, runtime.tokenizer, model.name, held).send()
