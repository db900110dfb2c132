"""Ollama's `options`: every one it documents, by type. What a plugin honours of them is for its routes to say."""

from __future__ import annotations

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields

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
    "mirostat_tau",
    "mirostat_eta",
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
NEUTRAL = {"tfs_z": 1, "penalize_newline": True}
"""Removed from Ollama; only these values say what happens anyway."""

KNOWN = frozenset((*SAMPLING, *LIMITS, *IGNORED_INTEGERS, *IGNORED_BOOLEANS, *NEUTRAL))


def known_options(fields: Fields, field: str = "options") -> Fields:
    """The options in `field`. Raises `BadRequest` for one that is unknown, and for a wrong type or value of one that
    has no effect here.
    """
    values = fields.object(field) or {}
    for name in values:
        if name not in KNOWN:
            raise BadRequest(f"unknown option '{name}'; known: {', '.join(sorted(KNOWN))}", param=f"{field}.{name}")
    options = Fields(values, f"{field}.")
    for name in IGNORED_INTEGERS:
        options.integer(name)
    for name in IGNORED_BOOLEANS:
        options.boolean(name)
    for name, neutral in NEUTRAL.items():
        options.refuse(name, f"only {neutral} is taken", neutral=(neutral,))
    return options
