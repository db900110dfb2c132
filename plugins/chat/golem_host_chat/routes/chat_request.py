"""A request for an answer to a conversation, in the fields of `/v1/chat/completions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields
from golem_host_chat.routes.chat_prompt import Framing, Prompt, conversation_prompt, render_conversation
from golem_host_chat.routes.choices import Draw
from golem_host_chat.routes.context_limit import tokenizable
from golem_host_chat.routes.openai_fields import SharedFields, draw_of, shared_fields
from golem_host_chat.routes.thinking import openai_thinking, reasoning_budget, reasoning_format
from golem_host_chat.routes.token_probabilities import of_chat
from golem_host_chat.routes.tools import openai_tools
from golem_host_chat.routes.unserved import CHAT, V1, refuse_unserved
from golem_host_chat.thought_budget import ThoughtEnd

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime


@dataclass(frozen=True)
class ChatRequest:
    """What can be read of it without a model."""

    fields: Fields
    shared: SharedFields
    framing: Framing
    messages: list[Any]

    @classmethod
    def read(cls, fields: Fields) -> ChatRequest:
        """Raises `BadRequest` naming the field at fault."""
        refuse_unserved(fields, CHAT, V1)
        return cls(fields, shared_fields(fields, of_chat), _framing(fields), _messages(fields))

    def text(self, runtime: ChatRuntime) -> str:
        """Its prompt before it is tokenized; raises as `render_conversation`."""
        return render_conversation(runtime, self.messages, self.framing).text

    def count(self, runtime: ChatRuntime) -> int:
        """How many tokens its prompt has, whether they fit or not; raises as `render_conversation`."""
        return len(runtime.tokenizer.encode(tokenizable(self.text(runtime), "messages")))

    @property
    def takes_long(self) -> bool:
        """Whether `draw` may take long, however short the request."""
        return self.shared.takes_long or bool(self.framing.tooling.required)

    def prompt(self, runtime: ChatRuntime) -> Prompt:
        """Its prompt on this model; raises as `conversation_prompt`."""
        return conversation_prompt(runtime, self.messages, self.framing, limit=runtime.context)

    def draw(self, runtime: ChatRuntime) -> Draw:
        """What to draw on this model; raises as `conversation_prompt` and `draw_of`."""
        prompt = self.prompt(runtime)
        return draw_of(self.fields, self.shared, runtime, [prompt.tokens], prompt.reading, self.framing)


def _messages(fields: Fields) -> list[Any]:
    messages = fields.array("messages")
    if messages is None:
        raise BadRequest("'messages' is required", param="messages")
    if not messages:
        raise fields.fault("messages", "the conversation is empty; it needs at least one message")
    return messages


def _framing(fields: Fields) -> Framing:
    continued = fields.value("continue_final_message")
    if continued not in ("content", "reasoning_content"):
        continued = fields.boolean("continue_final_message")
    add_generation_prompt = fields.boolean("add_generation_prompt")
    if continued and add_generation_prompt:
        raise fields.fault(
            "continue_final_message", "Cannot set both add_generation_prompt and continue_final_message to true."
        )
    thinking, kwargs = openai_thinking(fields)
    form = reasoning_format(fields)
    return Framing(
        thinking=thinking,
        kwargs=kwargs,
        continue_final=continued,
        add_generation_prompt=add_generation_prompt is not False,
        tooling=openai_tools(fields),
        apart=form != "none",
        doubled=form == "deepseek-legacy",
        budget=reasoning_budget(fields),
        end=ThoughtEnd() if fields.boolean("reasoning_control", False) else None,
    )
