"""The request fields `/api/chat` and `/api/generate` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from golem_host.http.fields import Fields
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.registry import KeepAlive
from golem_host_chat.likelihoods import Probabilities
from golem_host_chat.routes.answer_grammar import answer_constraint
from golem_host_chat.routes.chat_prompt import Framing, Prompt
from golem_host_chat.routes.choices import Draw
from golem_host_chat.routes.constraint_fields import AskedConstraint, ollama_constraint
from golem_host_chat.routes.ollama_options import Options, read_options
from golem_host_chat.routes.thinking import ollama_thinking
from golem_host_chat.routes.token_probabilities import of_ollama
from golem_host_chat.routes.tools import NO_TOOLS, Tooling

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime


@dataclass(frozen=True)
class SharedFields:
    """Fields that need no model to be read. `model` is the name as written, "" when absent."""

    model: str
    stream: bool
    truncate: bool
    keep_alive: KeepAlive
    options: Options
    thinking: bool | None
    template_variables: Mapping[str, Any]
    probs: Probabilities | None
    constraint: AskedConstraint | None

    @property
    def takes_long(self) -> bool:
        """Whether `draw` may take long, however short the request."""
        return self.constraint is not None

    def draw(self, runtime: ChatRuntime, prompt: Prompt, framing: Framing) -> Draw:
        """What to draw after `prompt`, which fits; raises as `Options.draw` and `answer_constraint`."""
        draw = self.options.draw(runtime, prompt.tokens, prompt.reading, self.probs)
        return replace(draw, constraint=answer_constraint(runtime, framing, prompt.reading, self.constraint))

    def framing(self, tooling: Tooling = NO_TOOLS) -> Framing:
        return Framing(thinking=self.thinking, kwargs=self.template_variables, tooling=tooling)


def shared_fields(fields: Fields) -> SharedFields:
    """Read them; raises `BadRequest` naming the field at fault."""
    # The context never shifts, so both values of `shift` come to the same; only its type is checked.
    fields.boolean("shift")
    thinking, template_variables = ollama_thinking(fields)
    return SharedFields(
        model=fields.string("model", ""),
        stream=fields.boolean("stream", True),
        truncate=fields.boolean("truncate", True),
        keep_alive=parse_keep_alive(fields.value("keep_alive")),
        options=read_options(fields),
        thinking=thinking,
        template_variables=template_variables,
        probs=of_ollama(fields),
        constraint=ollama_constraint(fields),
    )
