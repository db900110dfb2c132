"""Chat templates: the Jinja source in a model file, turned into `messages -> prompt text`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from jinja2.exceptions import TemplateSyntaxError

from golem_host.errors import BadRequest
from golem_host.http.fields import kind_of
from golem_host_chat.formats.base import CallFormat
from golem_host_chat.formats.choice import find_format
from golem_host_chat.formats.tagged_json import HERMES
from golem_host_chat.formats.thoughts import Thought, find_thought
from golem_host_chat.template_meter import Meter
from golem_host_chat.template_probes import PROBE_TOOL, TemplateAbilities, probe, probe_call, with_parts
from golem_host_chat.template_sandbox import METER, TemplateRaised, TemplateSandbox

MAX_SOURCE = 256 * 1024
"""Characters of template source; the longest template of the llama.cpp collection has 18,120."""

_OWN_FIELDS = ("messages", "tools", "add_generation_prompt")
_SANDBOX = TemplateSandbox()


class TemplateError(BadRequest):
    """400: the template does not compile, refuses the conversation in its own words, or fails on it."""


class ChatTemplate:
    """A compiled chat template.

    `source` is `tokenizer.chat_template`, `bos` and `eos` the texts of those tokens ("" for none), `name` what errors
    call it. Raises `TemplateError` when the source is too long or does not compile. Rendering is pure apart from the
    date, safe from several threads, and bounded (`template_sandbox`).

    What the template can do (`template_probes`) is found by rendering small conversations with it, when first asked.
    """

    def __init__(self, source: str, bos: str = "", eos: str = "", *, name: str = "this model") -> None:
        self.source = source
        self.bos = bos
        self.eos = eos
        self.name = name
        if len(source) > MAX_SOURCE:
            raise TemplateError(
                f"the chat template of {name} has {len(source)} characters; at most {MAX_SOURCE} are read"
            )
        try:
            self._compiled = _SANDBOX.compile_metered(source)
        except TemplateSyntaxError as error:
            message = f"the chat template of {name} does not compile: line {error.lineno}: {error.message}"
            raise TemplateError(message) from error
        except Exception as error:  # Python's own compiler: nesting, size
            raise TemplateError(f"the chat template of {name} does not compile: {_words(error)}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        enable_thinking: bool | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt text of `messages` (prepared: `messages.prepare_messages`).

        The template sees `messages`, `tools` (absent without any, as in llama-server), `add_generation_prompt`,
        `bos_token`, `eos_token`, `date_string`, `datetime`, `enable_thinking` where it has that switch (off unless
        asked), and last `kwargs` (a request's `chat_template_kwargs`). Raises `TemplateError` when the template
        refuses or fails, `BadRequest` for kwargs that cannot be passed.
        """
        variables: dict[str, Any] = {}
        if enable_thinking is not None:
            variables["enable_thinking"] = enable_thinking
        elif self.supports_thinking:
            variables["enable_thinking"] = False
        variables |= _template_kwargs(kwargs or {})
        if tools and self.abilities.xml_tools:
            tools, variables["xml_tools"] = None, [tool["function"] for tool in tools]
        return self._render(messages, tools, add_generation_prompt, variables)

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        further: Mapping[str, Any],
    ) -> str:
        now = datetime.now()
        variables = {
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos,
            "eos_token": self.eos,
            "date_string": now.strftime("%d %b %Y"),
            "datetime": now.strftime("%b %d %Y"),
            **({"tools": tools} if tools else {}),
            **further,
        }
        try:
            variables[METER] = Meter(variables)
            return self._compiled.render(variables)
        except TemplateRaised as error:
            raise TemplateError(f"the chat template refuses this conversation: {error}", param="messages") from error
        except Exception as error:  # whatever the template's own code runs into
            raise TemplateError(
                f"the chat template fails on this conversation: {_words(error)}", param="messages"
            ) from error

    def strip_bos(self, rendered: str) -> str:
        """`rendered` without one leading BOS text: for a vocabulary whose tokenizer adds BOS itself."""
        return rendered.removeprefix(self.bos) if self.bos else rendered

    def strip_eos(self, rendered: str) -> str:
        """`rendered` without one trailing EOS text: for a vocabulary whose tokenizer adds EOS itself."""
        return rendered.removesuffix(self.eos) if self.eos else rendered

    @cached_property
    def thought(self) -> Thought | None:
        """How the model marks its reasoning."""
        return find_thought(self.source)

    @cached_property
    def call_format(self) -> CallFormat | None:
        """How the model writes calls; None where the template knows no tools, or shows calls in no way that could be
        read.
        """
        if self.abilities.told_calls:
            return HERMES
        if not self.supports_tools:
            return None
        return find_format(self._show_probe, probe_call(objects=self.takes_object_arguments), self.thought)

    def _show_probe(self, messages: Sequence[Mapping[str, Any]]) -> str:
        return self._render(with_parts(messages) if self.requires_typed_content else messages, [PROBE_TOOL], False, {})

    @cached_property
    def abilities(self) -> TemplateAbilities:
        """What the template can do."""
        return probe(lambda messages, tools, further: self._render(messages, tools, True, further))

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What it adds to a model's completion, in Ollama's words."""
        tools = ("tools",) if self.call_format is not None else ()
        return (*tools, "thinking") if self.supports_thinking else tools

    @property
    def supports_thinking(self) -> bool:
        return self.abilities.thinking

    @property
    def supports_system(self) -> bool:
        return self.abilities.system

    @property
    def supports_tools(self) -> bool:
        return self.abilities.tools

    @property
    def supports_tool_calls(self) -> bool:
        return self.abilities.tool_calls or self.abilities.told_calls

    @property
    def calls_are_content(self) -> bool:
        return self.abilities.told_calls

    @property
    def requires_typed_content(self) -> bool:
        return self.abilities.typed_content

    @property
    def takes_object_arguments(self) -> bool:
        return self.abilities.object_arguments

    @property
    def embeds_results(self) -> bool:
        return self.abilities.embedded_results

    @property
    def wants_short_ids(self) -> bool:
        return self.abilities.short_ids


def _template_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A request's `chat_template_kwargs` (null is absent) with the names llama-server sets along with two of them."""
    for field in _OWN_FIELDS:
        if field in kwargs:
            raise BadRequest(f"chat_template_kwargs: {field!r} is a field of its own", param="chat_template_kwargs")
    thinking = kwargs.get("enable_thinking")
    if thinking is not None and not isinstance(thinking, bool):
        kind = kind_of(thinking).split()[-1]
        message = f'invalid type for "enable_thinking" (expected boolean, got {kind})'
        raise BadRequest(message, param="chat_template_kwargs")
    variables: dict[str, Any] = {}
    if "preserve_reasoning" in kwargs:
        keep = bool(kwargs["preserve_reasoning"])
        variables["preserve_thinking"] = keep
        variables |= dict.fromkeys(("clear_thinking", "truncate_history_thinking", "drop_thinking"), not keep)
    if "reasoning_effort" in kwargs:
        variables["reasoning_strength"] = kwargs["reasoning_effort"]
    return variables | {name: value for name, value in kwargs.items() if value is not None and name != METER}


def _words(error: Exception) -> str:
    """The error for a person: its text, or its kind where the text says nothing."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"{error}"[:2000] or type(error).__name__
