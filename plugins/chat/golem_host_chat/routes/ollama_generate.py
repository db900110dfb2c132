"""`POST /api/generate`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest, ContextExceeded, NotFound
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.off_loop import off_loop
from golem_host.http.requestlog import log_note
from golem_host_chat.generation import Completion
from golem_host_chat.routes.chat_prompt import Prompt, conversation_prompt
from golem_host_chat.routes.choices import Choices, Draw
from golem_host_chat.routes.context_limit import encode_within
from golem_host_chat.routes.insertion import insertion_tokens
from golem_host_chat.routes.ollama_answer import respond
from golem_host_chat.routes.ollama_bodies import Reply, generate_part
from golem_host_chat.routes.ollama_fields import SharedFields, shared_fields
from golem_host_chat.routes.prompt_shapes import prompt_tokens
from golem_host_chat.routes.reading import PLAIN
from golem_host_chat.routes.residency import load_or_unload
from golem_host_chat.routes.thinking import require_thinking
from golem_host_chat.routes.token_ids import checked_ids
from golem_host_chat.routes.token_probabilities import TokenWriter
from golem_host_chat.routes.unserved import OLLAMA, OLLAMA_GENERATE, refuse_unserved

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_chat.runtime import ChatRuntime

log = logging.getLogger("golem_host.chat")


@dataclass(frozen=True)
class _Asked:
    """`context` are the tokens of an earlier exchange, as its answer gave them; between `prompt` and `suffix`, if it is
    not empty, the answer belongs.
    """

    prompt: str
    system: str
    raw: bool
    context: list[Any]
    suffix: str


async def generate(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Answer a prompt, or continue it with `raw`; without a prompt load or unload the model."""
    fields = Fields(await read_json(request))
    asked = _asked(fields)
    refuse_unserved(fields, OLLAMA_GENERATE, OLLAMA)
    shared = shared_fields(fields)
    if not shared.model:
        raise NotFound("model '' not found", param="model", code="model_not_found")
    model = host.registry.resolve(shared.model, "chat")
    reply = Reply(shared.model, generate_part)
    if not asked.prompt:
        return await load_or_unload(host, model, shared.keep_alive, reply)
    async with host.registry.use(model, shared.keep_alive) as used:
        runtime = cast("ChatRuntime", used)
        reply.loaded()
        with runtime.lane.arriving():
            draw, dropped = await off_loop(request, lambda: _prepare(asked, shared, runtime), long=shared.takes_long)
        if dropped:
            log.info(
                "%s: a prompt was too long; the oldest %d tokens of its context were left out", model.name, dropped
            )
            log_note(request).extra["context tokens left out"] = dropped
        tokens = TokenWriter(runtime.tokenizer, shared.probs)
        choices = Choices(runtime.lane, draw)

        def further(completion: Completion) -> dict[str, Any]:
            return {} if asked.raw or asked.suffix else {"context": [*draw.prompts[0], *completion.tokens]}

        held = host.registry.use(model, shared.keep_alive)
        return await respond(request, choices, reply, held, tokens, stream=shared.stream, further=further)


def _asked(fields: Fields) -> _Asked:
    asked = _Asked(
        prompt=fields.string("prompt", ""),
        system=fields.string("system", ""),
        raw=fields.boolean("raw", False),
        context=fields.array("context") or [],
        suffix=fields.string("suffix", ""),
    )
    if asked.raw and (asked.system or asked.context or fields.value("template") or fields.value("format")):
        raise BadRequest("raw mode does not support template, system, context, or format", param="raw")
    if asked.suffix and (asked.system or asked.context or asked.raw or fields.value("think")):
        raise BadRequest("a prompt with a suffix has no system, context, raw or think", param="suffix")
    return asked


def _prepare(asked: _Asked, shared: SharedFields, runtime: ChatRuntime) -> tuple[Draw, int]:
    """What to draw, and how many of the context's tokens were left out."""
    prompt, dropped = _prompt(asked, shared, runtime)
    return shared.draw(runtime, prompt, shared.framing()), dropped


def _prompt(asked: _Asked, shared: SharedFields, runtime: ChatRuntime) -> tuple[Prompt, int]:
    """The prompt, and how many of the context's tokens were left out to make it fit.

    A file without a chat template continues the prompt as it stands, after the context (Ollama's default template).
    """
    require_thinking(runtime, shared.thinking, shared.model)
    limit = shared.options.limit(runtime)
    context = checked_ids(runtime.tokenizer, asked.context, "context")
    new = _new_prompt(asked, shared, runtime, limit, after_context=bool(context))
    over = len(context) + len(new.tokens) - (limit - 1)
    if over > 0 and (not shared.truncate or over > len(context)):
        raise ContextExceeded(len(new.tokens) + (0 if shared.truncate else len(context)), limit)
    dropped = max(over, 0)
    return Prompt(context[dropped:] + new.tokens, new.reading), dropped


def _new_prompt(
    asked: _Asked, shared: SharedFields, runtime: ChatRuntime, limit: int, *, after_context: bool
) -> Prompt:
    if asked.suffix:
        return Prompt(insertion_tokens(runtime, [asked.prompt], asked.suffix, limit), PLAIN)
    if asked.raw:
        return Prompt(prompt_tokens(runtime.tokenizer, [asked.prompt], limit), PLAIN)
    if runtime.template is None:
        if asked.system:
            raise BadRequest(
                f"Field 'system': the file of model '{runtime.model.name}' has no chat template that could carry it",
                param="system",
            )
        return Prompt(encode_within(runtime.tokenizer, asked.prompt, limit, add_special=not after_context), PLAIN)
    system = [{"role": "system", "content": asked.system}] if asked.system else []
    messages = [*system, {"role": "user", "content": asked.prompt}]
    return conversation_prompt(runtime, messages, shared.framing(), limit=limit, continues=after_context)
