"""From a conversation to the tokens of its prompt, through the chat template of the model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host_chat.messages import prepare_messages
from golem_host_chat.routes.context_limit import encode_within

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime


@dataclass(frozen=True)
class Framing:
    """How a request wants its messages framed.

    `thinking` None leaves the template's switch off. `continue_final` makes the answer continue a last assistant
    message (None: it does when there is one). `add_generation_prompt` False ends the prompt where the messages end.
    """

    thinking: bool | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    continue_final: bool | None = None
    add_generation_prompt: bool = True


def conversation_tokens(
    runtime: ChatRuntime, messages: Any, framing: Framing, *, limit: int, continues: bool = False
) -> list[int]:
    """Token ids of the rendered conversation, BOS included where the vocabulary asks for it.

    One that `continues` follows the tokens of an earlier exchange (Ollama's `context`) and has no BOS. Raises what
    `conversation_text` raises, and `ContextExceeded` for a text that cannot be under `limit` tokens (the caller counts
    the others).
    """
    text = conversation_text(runtime, messages, framing, continues=continues)
    tokens = encode_within(runtime.tokenizer, text, limit, add_special=not continues)
    if not tokens:
        raise BadRequest("the chat template makes an empty prompt of these messages", param="messages")
    return tokens


def conversation_text(runtime: ChatRuntime, messages: Any, framing: Framing, *, continues: bool = False) -> str:
    """The rendered conversation, without the BOS and EOS that encoding adds to it; `continues` as above.

    Raises `BadRequest` for messages that cannot be honoured, `TemplateError`, in the template's words, when it refuses.
    """
    template = runtime.template
    if template is None:
        raise BadRequest(
            f"{runtime.template_fault}; it continues plain text: use /v1/completions, or /api/generate with raw",
            param="messages",
        )
    prepared = prepare_messages(messages, template)
    prefill = _prefill(prepared, framing)
    text = template.render(
        prepared if prefill is None else prepared[:-1],
        add_generation_prompt=framing.add_generation_prompt or prefill is not None,
        enable_thinking=framing.thinking,
        kwargs=framing.kwargs,
    )
    text += prefill or ""
    # Where encoding adds BOS and EOS by itself, those the template wrote would be there twice.
    vocab = runtime.tokenizer.vocab
    if continues or vocab.add_bos:
        text = template.strip_bos(text)
    if not continues and vocab.add_eos:
        text = template.strip_eos(text)
    return text


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
