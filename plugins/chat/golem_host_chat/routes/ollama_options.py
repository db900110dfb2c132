"""Ollama's `options` as chat honours them: sampling and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields
from golem_host.http.ollama_options import PREFIX, SAMPLING, known_options
from golem_host_chat.generation import Extras
from golem_host_chat.likelihoods import Probabilities
from golem_host_chat.routes.choices import Draw
from golem_host_chat.routes.drawing_rules import sampling_of
from golem_host_chat.routes.openai_fields import MAX_INT
from golem_host_chat.routes.reading import Reading
from golem_host_chat.routes.stop_strings import stop_strings
from golem_host_chat.sampling_params import SamplingParams

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime


@dataclass(frozen=True)
class Options:
    """What can be read without a model. `num_ctx` None: the slot's context. `num_predict` as Ollama counts:
    -1 the operator's limit, -2 until the context is full."""

    num_ctx: int | None
    num_predict: int
    stops: tuple[str, ...]
    values: Mapping[str, Any]

    def limit(self, runtime: ChatRuntime) -> int:
        """Positions prompt and answer may take. Raises `BadRequest` when `num_ctx` asks for more than there are."""
        if self.num_ctx is not None and self.num_ctx > runtime.slot_context:
            raise BadRequest(
                f"option 'num_ctx' is {self.num_ctx}: a slot of model '{runtime.model.name}' has "
                f"{runtime.slot_context} positions; start the host with a larger --context or a smaller --parallel",
                param=f"{PREFIX}num_ctx",
            )
        return self.num_ctx or runtime.context

    def draw(self, runtime: ChatRuntime, prompt: list[int], reading: Reading, probs: Probabilities | None) -> Draw:
        """What to draw after `prompt`, which fits. Raises `BadRequest` naming a sampling option at fault."""
        room = self.limit(runtime) - len(prompt)
        wanted = {-1: runtime.max_tokens, -2: None}.get(self.num_predict, self.num_predict)
        return Draw(
            [prompt],
            self.sampling(runtime),
            max_tokens=room if wanted is None else min(wanted, room),
            stops=self.stops or runtime.stops,
            reading=reading,
            extras=Extras(probs=probs),
        )

    def sampling(self, runtime: ChatRuntime) -> SamplingParams:
        """The sampling they ask for, over the model's own."""
        values = {name: self.values.get(name) for name in SAMPLING}
        if values["repeat_last_n"] == -1:
            values["repeat_last_n"] = self.limit(runtime)
        return sampling_of(Fields(values, PREFIX), runtime)


def read_options(fields: Fields, field: str = "options") -> Options:
    """The options in `field`. Raises `BadRequest` naming one that is unknown, of a wrong type or not honoured."""
    options = known_options(fields, field)
    return Options(
        num_ctx=options.integer("num_ctx", minimum=0, maximum=MAX_INT) or None,
        num_predict=options.integer("num_predict", -1, minimum=-2, maximum=MAX_INT),
        stops=stop_strings(options),
        values=options.obj,
    )
