"""`POST /v1/completions`: the prompt as it stands, without a chat template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host_chat.routes.choices import Choices, Draw
from golem_host_chat.routes.insertion import insertion_tokens
from golem_host_chat.routes.openai_answer import Answer
from golem_host_chat.routes.openai_bodies import Envelope
from golem_host_chat.routes.openai_fields import SharedFields, draw_of, require_queue, shared_fields
from golem_host_chat.routes.openai_shapes import TextShape
from golem_host_chat.routes.prompt_shapes import Segment, prompt_segments, prompt_text, prompt_tokens
from golem_host_chat.routes.token_probabilities import TokenWriter, of_completion
from golem_host_chat.routes.unserved import V1, refuse_unserved

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime


async def completions(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Continue one prompt or several."""
    fields = Fields(await read_json(request))
    refuse_unserved(fields, V1)
    shared = shared_fields(fields, of_completion)
    echo, suffix = fields.boolean("echo", False), fields.string("suffix", "")
    best_of = fields.integer("best_of", shared.copies, minimum=1)
    if best_of > shared.copies:
        raise fields.fault("best_of", f"answers are not ranked; n, which is {shared.copies}, gives several")
    prompts = prompt_segments(fields.value("prompt"))
    model = host.registry.resolve(shared.model, "chat")
    async with host.registry.use(model, shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        require_queue(len(prompts), shared, runtime)
        with runtime.lane.arriving():
            draw, shape = await off_loop(
                request, lambda: _prepare(fields, shared, runtime, prompts, echo, suffix), long=shared.takes_long
            )
        envelope = Envelope(
            prefix="cmpl-", kind="text_completion", chunk_kind="text_completion", model=model.name, version=host.version
        )
        choices = Choices(runtime.lane, draw)
        held = host.registry.use(model, shared.keep_alive)
        return await Answer(request, shared, choices, shape, envelope, held).send()


def _prepare(
    fields: Fields, shared: SharedFields, runtime: ChatRuntime, prompts: list[list[Segment]], echo: bool, suffix: str
) -> tuple[Draw, TextShape]:
    if suffix:
        tokens = [insertion_tokens(runtime, segments, suffix, runtime.context) for segments in prompts]
    else:
        tokens = [prompt_tokens(runtime.tokenizer, segments, runtime.context) for segments in prompts]
    draw = draw_of(fields, shared, runtime, tokens)
    tokens_written = TokenWriter(runtime.tokenizer, draw.extras.probs)
    if not echo:
        return draw, TextShape(tokens_written)
    texts = [prompt_text(runtime.tokenizer, segments) for segments in prompts]
    return draw, TextShape(tokens_written, [text for text in texts for _ in range(shared.copies)])
