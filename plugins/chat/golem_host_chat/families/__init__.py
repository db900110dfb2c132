"""Model families, one file each, named as GGUF files name them (`general.architecture`)."""

from __future__ import annotations

import importlib

from golem_host.weights.gguf import Gguf, GgufError
from golem_host_chat.families.base import Batch, CacheSpec, Family, StateSpec

__all__ = ["ARCHITECTURES", "Batch", "CacheSpec", "Family", "StateSpec", "family_of"]

ARCHITECTURES = {
    "gemma2": "golem_host_chat.families.gemma2:Gemma2",
    "gemma3": "golem_host_chat.families.gemma3:Gemma3",
    "gemma4": "golem_host_chat.families.gemma4:Gemma4",
    "llama": "golem_host_chat.families.llama:Llama",
    "qwen3": "golem_host_chat.families.qwen3:Qwen3",
    "qwen35": "golem_host_chat.families.qwen35:Qwen35",
    "qwen35moe": "golem_host_chat.families.qwen35moe:Qwen35Moe",
    "qwen3moe": "golem_host_chat.families.qwen3moe:Qwen3Moe",
}
"""Where each family lives; its module is imported with the first file of that family."""


def family_of(gguf: Gguf) -> Family:
    """The family of a file, its tensors checked. Raises `GgufError` for one not served, listing those that are."""
    home = ARCHITECTURES.get(gguf.architecture)
    if home is None:
        raise GgufError(
            gguf.path,
            f"models of family '{gguf.architecture}' are not served; "
            f"families served: {', '.join(sorted(ARCHITECTURES))}",
        )
    module, name = home.split(":")
    return getattr(importlib.import_module(module), name)(gguf)
