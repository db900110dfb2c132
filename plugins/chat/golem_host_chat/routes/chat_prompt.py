"""From a conversation to its prompt, through the chat template of the model file, and how its answer is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host_chat.formats.gemma4 import GEMMA4, TURN_BEGIN, TURN_END
from golem_host_chat.messages import prepare_messages
from golem_host_chat.routes.context_limit import encode_within
from golem_host_chat.routes.reading import Reading
from golem_host_chat.routes.token_ids import control_tokens
from golem_host_chat.routes.tools import NO_TOOLS, Tooling, require_tools
from golem_host_chat.thought_budget import ThoughtBudget

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime
    from golem_host_chat.templates import ChatTemplate


@dataclass(frozen=True)
class Framing:
    """How a request wants its messages framed.

    `thinking` None leaves the template's switch off. `continue_final` makes the answer continue a last assistant
    message (None: it does when there is one). `add_generation_prompt` False ends the prompt where the messages end.
    `apart` keeps reasoning out of the content, `doubled` repeats it there, `budget` are the most tokens of it.
    """

    thinking: bool | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    continue_final: bool | None = None
    add_generation_prompt: bool = True
    tooling: Tooling = NO_TOOLS
    apart: bool = True
    doubled: bool = False
    budget: int | None = None

    @property
    def thinks(self) -> bool:
        """Whether the model was asked to think."""
        asked = self.kwargs.get("enable_thinking")
        return bool(self.thinking if asked is None else asked)


NO_FRAMING = Framing()


@dataclass(frozen=True)
class Rendered:
    """A conversation as its template renders it, without the BOS and EOS that encoding adds, and how its answer is
    read.
    """

    text: str
    reading: Reading


@dataclass(frozen=True)
class Prompt:
    """A conversation's token ids, and how its answer is read."""

    tokens: list[int]
    reading: Reading


def conversation_prompt(
    runtime: ChatRuntime, messages: Any, framing: Framing, *, limit: int, continues: bool = False
) -> Prompt:
    """The prompt of a conversation, BOS included where the vocabulary asks for it.

    One that `continues` follows the tokens of an earlier exchange (Ollama's `context`) and has no BOS. Raises what
    `render_conversation` raises, and `ContextExceeded` for a text that cannot be under `limit` tokens (the caller
    counts the others).
    """
    rendered = render_conversation(runtime, messages, framing, continues=continues)
    tokens = encode_within(runtime.tokenizer, rendered.text, limit, add_special=not continues)
    if not tokens:
        raise BadRequest("the chat template makes an empty prompt of these messages", param="messages")
    return Prompt(tokens, rendered.reading)


def render_conversation(runtime: ChatRuntime, messages: Any, framing: Framing, *, continues: bool = False) -> Rendered:
    """The rendered conversation; `continues` as above.

    Raises `BadRequest` for messages and tools that cannot be honoured, `TemplateError`, in the template's words, when
    it refuses.
    """
    template = runtime.template
    if template is None:
        raise BadRequest(
            f"{runtime.template_fault}; it continues plain text: use /v1/completions, or /api/generate with raw",
            param="messages",
        )
    require_tools(runtime, framing.tooling)
    prepared = prepare_messages(runtime.with_opening(messages, continues=continues), template)
    prefill = _prefill(prepared, framing)
    text = template.render(
        prepared if prefill is None else prepared[:-1],
        tools=framing.tooling.declared,
        add_generation_prompt=framing.add_generation_prompt or prefill is not None,
        enable_thinking=framing.thinking,
        kwargs=framing.kwargs,
    )
    if framing.add_generation_prompt and template.call_format is GEMMA4 and text.endswith(TURN_END):
        text += TURN_BEGIN  # the template opens no turn after results of calls that followed on text
    reading = _reading(runtime, template, framing, text, prefill or "")
    text += prefill or ""
    # Where encoding adds BOS and EOS by itself, those the template wrote would be there twice.
    vocab = runtime.tokenizer.vocab
    if continues or vocab.add_bos:
        text = template.strip_bos(text)
    if not continues and vocab.add_eos:
        text = template.strip_eos(text)
    return Rendered(text, reading)


def _reading(runtime: ChatRuntime, template: ChatTemplate, framing: Framing, text: str, prefill: str) -> Reading:
    thought = template.thought
    calls = template.call_format if framing.tooling.declared else None
    markers = (*(thought.markers if thought else ()), *(calls.markers if calls else ()))
    opened, budget = thought is not None and thought.is_open(text, prefill), None
    if thought is not None and framing.budget is not None:
        closing = tuple(runtime.tokenizer.encode(thought.closing, add_special=False))
        ends = calls.openers if calls is not None and calls.ends_thought else ()
        budget = ThoughtBudget(thought, framing.budget, closing, ends, opened)
    return Reading(
        thought if framing.apart else None,
        calls,
        framing.tooling.schemas,
        opened=opened,
        preserve=control_tokens(runtime.tokenizer, markers),
        budget=budget,
        single=calls is not None and framing.tooling.single,
        doubled=framing.doubled,
    )


def _prefill(prepared: list[dict[str, Any]], framing: Framing) -> str | None:
    """The text of a last assistant message that the answer continues, None when it begins a message of its own."""
    last = prepared[-1]
    if last["role"] != "assistant":
        if framing.continue_final:
            raise BadRequest(
                "Field 'continue_final_message': the last message is not the assistant's",
                param="continue_final_message",
            )
        return None
    if framing.continue_final is False:
        return None
    if len(prepared) > 1 and prepared[-2]["role"] == "assistant":
        raise BadRequest("Cannot have 2 or more assistant messages at the end of the list.", param="messages")
    if last.get("tool_calls"):
        raise BadRequest("Cannot continue an assistant message that contains tool calls.", param="messages")
    if last.get("reasoning_content"):
        raise BadRequest("Cannot continue an assistant message that contains reasoning.", param="messages")
    content = last["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
