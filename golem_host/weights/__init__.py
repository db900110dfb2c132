"""Bounds-checked, memory-mapped readers of model files; no torch."""

from __future__ import annotations

from golem_host.weights.errors import GgufError, SafetensorsError
from golem_host.weights.gguf import Gguf, open_gguf
from golem_host.weights.safetensors import Safetensors, open_safetensors
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

__all__ = [
    "GgmlType",
    "Gguf",
    "GgufError",
    "Safetensors",
    "SafetensorsError",
    "Tensor",
    "open_gguf",
    "open_safetensors",
]
