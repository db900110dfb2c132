"""A family's forward pass with every named intermediate, and how far two arrays lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.ops import CacheType
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.families.third_party import Brought
from golem_host_chat.memory import SlotMemory
from golem_host_chat.passes import record

Arrays = dict[str, NDArray[np.float32]]


def forward(
    path: Path,
    tokens: list[int],
    backend: Any,
    *,
    chunk: int = 512,
    kv_type: CacheType = CacheType.F16,
    others: Mapping[str, Brought] | None = None,
) -> Arrays:
    """Named intermediates and `logits`, (tokens, features), of all tokens, read in pieces of `chunk`; `others` are
    families of other plugins."""
    with open_gguf(path) as gguf:
        family = family_of(gguf, others)
        memory = SlotMemory(family, backend, slots=1, context=len(tokens), widest=backend.widest_pass, kv_type=kv_type)
        parts: dict[str, list[NDArray[np.float32]]] = {}
        for first in range(0, len(tokens), chunk):
            piece = tokens[first : first + chunk]
            recording = record(
                family, memory.caches, states=memory.states, width=len(piece), outputs=len(piece), keep_names=True
            )
            program = backend.compile(recording)
            program.inputs["tokens"][:] = piece
            program.inputs["positions"][:] = np.arange(first, first + len(piece))
            program.inputs["slots"][:] = 0
            program.inputs["outputs"][:] = np.arange(len(piece))
            program.run({"columns": len(piece), "outputs": len(piece)})
            for name in recording.names:
                parts.setdefault(name, []).append(program.read(name).reshape(len(piece), -1))
            parts.setdefault("logits", []).append(program.output("logits").copy())
        return {name: np.concatenate(pieces) for name, pieces in parts.items()}


def apart(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Root mean square of the difference over that of `expected`."""
    assert found.shape == expected.shape and np.isfinite(found).all()
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))
