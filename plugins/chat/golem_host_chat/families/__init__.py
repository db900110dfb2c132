"""Model families, one file each, named as GGUF files name them (`general.architecture`).

What this module exports is what a family is written with, in other plugins too (docs/families.md).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from golem_host.weights.gguf import Gguf, GgufError
from golem_host_chat.families.base import Batch, CacheSpec, Family, StateSpec
from golem_host_chat.families.hparams import Experts, Hparams, read_experts, read_hparams, refuse_keys
from golem_host_chat.families.third_party import Brought, made
from golem_host_chat.families.weights import Linear, Weights

__all__ = [
    "ARCHITECTURES",
    "Batch",
    "CacheSpec",
    "Experts",
    "Family",
    "Hparams",
    "Linear",
    "StateSpec",
    "Weights",
    "family_of",
    "read_experts",
    "read_hparams",
    "refuse_keys",
]

ARCHITECTURES = {
    "gemma2": "golem_host_chat.families.gemma2:Gemma2",
    "gemma3": "golem_host_chat.families.gemma3:Gemma3",
    "gemma4": "golem_host_chat.families.gemma4:Gemma4",
    "llama": "golem_host_chat.families.llama:Llama",
    "mistral3": "golem_host_chat.families.mistral3:Mistral3",
    "qwen2": "golem_host_chat.families.qwen2:Qwen2",
    "qwen3": "golem_host_chat.families.qwen3:Qwen3",
    "qwen35": "golem_host_chat.families.qwen35:Qwen35",
    "qwen35moe": "golem_host_chat.families.qwen35moe:Qwen35Moe",
    "qwen3moe": "golem_host_chat.families.qwen3moe:Qwen3Moe",
    "smollm3": "golem_host_chat.families.smollm3:SmolLM3",
}
"""Where each family lives; its module is imported with the first file of that family."""


def family_of(gguf: Gguf, others: Mapping[str, Brought] | None = None) -> Family:
    """The family of a file, its tensors checked; `others` are those of other plugins.

    Raises `GgufError` for one not served, listing those that are.
    """
    architecture, others = gguf.architecture, others or {}
    if architecture in others:
        return made(gguf, others[architecture])
    if architecture not in ARCHITECTURES:
        served = ", ".join(sorted([*ARCHITECTURES, *others]))
        raise GgufError(gguf.path, f"models of family '{architecture}' are not served; families served: {served}")
    module, name = ARCHITECTURES[architecture].split(":")
    return getattr(importlib.import_module(module), name)(gguf)
