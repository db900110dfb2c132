"""From a conversation to its prompt, through the chat template of the model file, and how its answer is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host_chat.formats.cursor import SPACE
from golem_host_chat.formats.gemma4 import GEMMA4, TURN_BEGIN, TURN_END
from golem_host_chat.messages import prepare_messages
from golem_host_chat.routes.context_limit import encode_within
from golem_host_chat.routes.reading import Reading
from golem_host_chat.routes.token_ids import control_tokens
from golem_host_chat.routes.tools import NO_TOOLS, Tooling, require_tools
from golem_host_chat.thought_budget import UNLIMITED, ThoughtBudget, ThoughtEnd

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime
    from golem_host_chat.templates import ChatTemplate


@dataclass(frozen=True)
class Framing:
    """How a request wants its messages framed.

    `thinking` None leaves the template's switch off. `continue_final` makes the answer continue a last assistant
    message (None: it does when there is one), or that part of it. `add_generation_prompt` False ends the prompt where
    the messages end.
    `apart` keeps reasoning out of the content, `doubled` repeats it there, `budget` are the most tokens of it, `end`
    says when it has to be over.
    """

    thinking: bool | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    continue_final: bool | str | None = None
    add_generation_prompt: bool = True
    tooling: Tooling = NO_TOOLS
    apart: bool = True
    doubled: bool = False
    budget: int | None = None
    end: ThoughtEnd | None = None

    @property
    def asks_thinking(self) -> bool | None:
        """Whether the model was asked to think, None when nothing was said of it."""
        asked = self.kwargs.get("enable_thinking")
        return self.thinking if asked is None else bool(asked)

    @property
    def thinks(self) -> bool:
        return bool(self.asks_thinking)


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
    begun = _begun(prepared, template, framing)
    text = template.render(
        prepared if begun is None else prepared[:-1],
        tools=framing.tooling.declared,
        add_generation_prompt=framing.add_generation_prompt or begun is not None,
        enable_thinking=True if begun is not None and begun.reasoning else framing.thinking,
        kwargs=framing.kwargs,
    )
    if framing.add_generation_prompt and template.call_format is GEMMA4 and text.endswith(TURN_END):
        text += TURN_BEGIN  # the template opens no turn after results of calls that followed on text
    prefill = "" if begun is None else begun.content or ""
    if begun is not None and begun.reasoning and template.thought is not None:
        prefill = template.thought.begun(text, begun.reasoning, begun.content)
    reading = _reading(runtime, template, framing, text, prefill)
    text += prefill
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
    if thought is not None and (framing.budget is not None or framing.end is not None):
        closing = tuple(runtime.tokenizer.encode(thought.closing, add_special=False))
        ends = calls.openers if calls is not None and calls.ends_thought else ()
        tokens = UNLIMITED if framing.budget is None else framing.budget
        budget = ThoughtBudget(thought, tokens, closing, ends, opened, framing.end)
    return Reading(
        thought if framing.apart else None,
        calls,
        framing.tooling.schemas,
        opened=opened,
        resumed=thought is not None and opened and bool(prefill.strip(SPACE).removeprefix(thought.opening)),
        preserve=control_tokens(runtime.tokenizer, markers),
        budget=budget,
        single=calls is not None and framing.tooling.single,
        doubled=framing.doubled,
    )


@dataclass(frozen=True)
class _Begun:
    """A last assistant message that the answer continues: within its reasoning where there is no content."""

    reasoning: str
    content: str | None


def _begun(prepared: list[dict[str, Any]], template: ChatTemplate, framing: Framing) -> _Begun | None:
    """What the answer continues, None when it begins a message of its own."""
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
    reasoning, content = last.get("reasoning_content", ""), last["content"]
    if not isinstance(content, str):
        content = "".join(part["text"] for part in content)
    if framing.continue_final == "reasoning_content" and (content or not reasoning):
        raise BadRequest(
            "Field 'continue_final_message': the last message does not end with reasoning",
            param="continue_final_message",
        )
    if reasoning and (template.thought is None or framing.asks_thinking is False):
        why = "knows no reasoning" if template.thought is None else "was asked not to think"
        raise BadRequest(
            f"Cannot continue an assistant message that contains reasoning: this model {why}.", param="messages"
        )
    within = reasoning and not content and framing.continue_final != "content"
    return _Begun(reasoning, None if within else content)
