"""Ollama's `options`: sampling, limits, and the settings of its own runner that have no meaning here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields
from golem_host_chat.routes.choices import Draw
from golem_host_chat.routes.drawing_rules import sampling_of
from golem_host_chat.routes.openai_fields import MAX_INT
from golem_host_chat.routes.stop_strings import stop_strings

if TYPE_CHECKING:
    from golem_host_chat.runtime import ChatRuntime

PREFIX = "options."

SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "min_keep",
    "mirostat",
)
LIMITS = ("num_ctx", "num_predict", "stop")
IGNORED_INTEGERS = ("num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict")
IGNORED_BOOLEANS = (
    "use_mmap",
    "use_mlock",
    "low_vram",
    "numa",
    "f16_kv",
    "vocab_only",
    "logits_all",
    "embedding_only",
)
IGNORED_NUMBERS = ("mirostat_tau", "mirostat_eta")
"""They steer mirostat, which is refused unless off."""
NEUTRAL = {"tfs_z": 1, "penalize_newline": True}
"""Removed from Ollama; only these values say what happens anyway."""

KNOWN = frozenset((*SAMPLING, *LIMITS, *IGNORED_INTEGERS, *IGNORED_BOOLEANS, *IGNORED_NUMBERS, *NEUTRAL))


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
        if self.num_ctx is not None and self.num_ctx > runtime.context:
            raise BadRequest(
                f"option 'num_ctx' is {self.num_ctx}: a slot of model '{runtime.model.name}' has {runtime.context} "
                "positions; start the host with a larger --context or a smaller --parallel",
                param=f"{PREFIX}num_ctx",
            )
        return self.num_ctx or runtime.context

    def draw(self, runtime: ChatRuntime, prompt: list[int]) -> Draw:
        """What to draw after `prompt`, which fits. Raises `BadRequest` naming a sampling option at fault."""
        room = self.limit(runtime) - len(prompt)
        wanted = {-1: runtime.max_tokens, -2: None}.get(self.num_predict, self.num_predict)
        return Draw(
            [prompt],
            sampling_of(Fields(self._sampling(runtime), PREFIX), runtime),
            max_tokens=room if wanted is None else min(wanted, room),
            stops=self.stops,
        )

    def _sampling(self, runtime: ChatRuntime) -> dict[str, Any]:
        values = {name: self.values.get(name) for name in SAMPLING}
        if values["repeat_last_n"] == -1:
            values["repeat_last_n"] = self.limit(runtime)
        return values


def read_options(fields: Fields) -> Options:
    """The request's `options`. Raises `BadRequest` naming one that is unknown, of a wrong type or not honoured."""
    values = fields.object("options") or {}
    for name in values:
        if name not in KNOWN:
            raise BadRequest(f"unknown option '{name}'; known: {', '.join(sorted(KNOWN))}", param=f"{PREFIX}{name}")
    options = Fields(values, PREFIX)
    for name in IGNORED_INTEGERS:
        options.integer(name)
    for name in IGNORED_BOOLEANS:
        options.boolean(name)
    for name in IGNORED_NUMBERS:
        options.number(name)
    for name, neutral in NEUTRAL.items():
        options.refuse(name, f"only {neutral} is taken", neutral=(neutral,))
    return Options(
        num_ctx=options.integer("num_ctx", minimum=0, maximum=MAX_INT) or None,
        num_predict=options.integer("num_predict", -1, minimum=-2, maximum=MAX_INT),
        stops=stop_strings(options),
        values=values,
    )
