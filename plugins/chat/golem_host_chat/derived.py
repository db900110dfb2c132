"""Chat models derived from others (`/api/create`): their system prompt, template, parameters and first messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golem_host.api import BadRequest, DerivedModel, Layer
from golem_host.http.fields import Fields
from golem_host.weights.gguf import open_gguf
from golem_host_chat.messages import prepare_messages
from golem_host_chat.routes.ollama_options import SAMPLING as SAMPLING_OPTIONS
from golem_host_chat.routes.ollama_options import Options, read_options
from golem_host_chat.runtime import ChatRuntime, template_of, text_rules
from golem_host_chat.sampling_params import SamplingParams
from golem_host_chat.sampling_request import read_sampling
from golem_host_chat.templates import ChatTemplate, TemplateError


@dataclass(frozen=True)
class PreparedLayer:
    """A layer that was found good. `template` None: the file's own."""

    options: Options
    template: ChatTemplate | None


def prepare_layer(path: Path, name: str, layer: Layer) -> PreparedLayer:
    """Check `layer` over the model file at `path`. Raises BadRequest naming what cannot be honoured."""
    fields = Fields({"parameters": dict(layer.parameters)})
    options = read_options(fields, "parameters")
    values = {key: value for key, value in options.values.items() if key in SAMPLING_OPTIONS}
    if values.get("repeat_last_n") == -1:  # the whole context, which is known once the model is loaded
        del values["repeat_last_n"]
    # No option names a text that a tokenizer would have to read.
    read_sampling(
        Fields(values, "parameters."),
        SamplingParams(),
        vocab_size=0,
        tokenize=lambda text: (),
        restarts=lambda breakers: {},
    )
    template = _own_template(path, name, layer.template) if layer.template else None
    if layer.system or layer.messages:
        _check_messages(template or _file_template(path, name), _opening(layer, layer.system))
    return PreparedLayer(options, template)


class DerivedRuntime:
    """A loaded model as one derived from it serves it: what the layer does not say is the loaded model's.

    Raises BadRequest for a `num_ctx` that its slots have not.
    """

    def __init__(self, base: ChatRuntime, model: DerivedModel) -> None:
        prepared: PreparedLayer = model.prepared
        options = prepared.options
        self._base = base
        self.model = model
        self.context = options.limit(base)
        self.sampling = options.sampling(base)
        self.stops = options.stops
        self.max_tokens = {-1: base.max_tokens, -2: None}.get(options.num_predict, options.num_predict)
        if prepared.template is not None:
            self.template: ChatTemplate | None = prepared.template
        else:
            self.template = base.template

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def with_opening(self, messages: Any, *, continues: bool = False) -> Any:
        """The layer's system message, unless the request begins with its own, then the layer's turns, then the
        request's; an exchange that `continues` has had those turns.
        """
        if not isinstance(messages, list):
            return messages
        layer = self.model.layer
        own = messages[:1] if _is_system(messages[:1]) else []
        return [*own, *_opening(layer, "" if own else layer.system, turns=not continues), *messages[len(own) :]]


def _opening(layer: Layer, system: str, *, turns: bool = True) -> list[Any]:
    return [*([{"role": "system", "content": system}] if system else []), *(layer.messages if turns else ())]


def _is_system(first: Sequence[Any]) -> bool:
    return any(
        isinstance(message, dict) and str(message.get("role")).lower() in ("system", "developer") for message in first
    )


def _own_template(path: Path, name: str, source: str) -> ChatTemplate:
    if "{{ ." in source or "{{." in source or "{{- ." in source or "{{ if ." in source or "{{- if ." in source:
        raise BadRequest(
            "Field 'template': this is a Go template, as Ollama has them; this host renders Jinja, as model files "
            "carry it. Without one the template of the model it is made from counts",
            param="template",
        )
    with open_gguf(path) as gguf:
        vocab = text_rules(gguf)[0].vocab
    bos, eos = ("" if token is None else vocab.text(token) for token in (vocab.bos, vocab.eos))
    try:
        return ChatTemplate(source, bos, eos, name=name)
    except TemplateError as error:
        raise BadRequest(f"Field 'template': {error.message}", param="template") from error


def _file_template(path: Path, name: str) -> ChatTemplate:
    with open_gguf(path) as gguf:
        template = template_of(gguf, text_rules(gguf)[0], name)
    if template is None:
        raise BadRequest(f"the file of model '{name}' has no chat template that could carry a system text or messages")
    return template


def _check_messages(template: ChatTemplate, messages: list[Any]) -> None:
    # What follows in every conversation: some templates refuse one without a user's turn.
    template.render(prepare_messages([*messages, {"role": "user", "content": "Hi"}], template))
