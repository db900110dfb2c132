"""One layer at a time: its weights are brought from the file into memory that the next layer's take over."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.ops import Recording, Ref
from golem_host.weights import GgmlType, Tensor
from golem_host_krea2.files import Matrix

PART_BYTES = 2 << 20
"""Of a file that are brought between two looks at who else wants the device."""
SLICE_SECONDS = 0.03
"""About how long a piece of a pass takes where nobody says."""

Vectors = Mapping[str, NDArray[np.float32]]
Record = Callable[[Recording, Mapping[str, Tensor]], Mapping[str, Ref]]
"""Records a layer on stand-ins of its weights, by name; gives its outputs by name."""


@dataclass(frozen=True)
class LayerWeights:
    """Where a layer's weights come from: matrices of a file, and small vectors."""

    matrices: Mapping[str, Matrix]
    vectors: Vectors = field(default_factory=dict)

    @property
    def types(self) -> dict[str, tuple[GgmlType, tuple[int, ...]]]:
        """What must agree for two layers to share memory and a recording."""
        found = {name: (matrix.type, matrix.shape) for name, matrix in self.matrices.items()}
        return found | {name: (GgmlType.F32, values.shape) for name, values in self.vectors.items()}


class Layer:
    """Memory for one layer, and its pass; both are made anew when a layer of other types comes (mixed GGUF files).

    Everything is called on the device thread. What yields has come to a place where others may have the device.
    """

    def __init__(self, backend: Any, record: Record) -> None:
        self._backend = backend
        self._record = record
        self._types: dict[str, tuple[GgmlType, tuple[int, ...]]] | None = None
        self._staged: Any = None
        self._program: Any = None
        self._kept: dict[Any, Any] = {}

    def bring(self, weights: LayerWeights, kept: Any = None) -> Generator[None, float | None, None]:
        """Bring a layer's values; where its matrices are `kept` in memory only the others."""
        if kept is None:
            self._prepare(weights)
            yield from fill(self._staged, weights.matrices)
            place = self._staged
        else:
            self._use(kept)
            place = kept
        for name, values in weights.vectors.items():
            place.put(name, values)
        yield

    def run(self, inputs: Mapping[str, NDArray[Any]], live: Mapping[str, int]) -> Generator[None, float | None, None]:
        """The pass over `inputs`; `output` reads what it gave. What is sent at a `yield` is how many seconds the next
        piece may take.
        """
        for name, values in inputs.items():
            self._program.inputs[name][: len(values)] = values
        slices = self._program.slices(live)
        while not slices.done:
            seconds = yield
            slices.advance(SLICE_SECONDS if seconds is None else seconds)

    def view(self, name: str) -> NDArray[np.float32]:
        """An output's rows, until the next `run`, which may still be given them. While they are held, so is the memory
        of the pass: not for layers of other types that follow.
        """
        return self._program.output(name)

    def output(self, name: str) -> NDArray[np.float32]:
        """A copy of an output's rows."""
        return self.view(name).copy()

    def _prepare(self, weights: LayerWeights) -> None:
        if weights.types == self._types:
            return
        self._program = self._staged = None  # given back before the next is taken
        self._staged = self._backend.stage(weights.types)
        self._program = compiled(self._backend, record(self._record, self._staged.tensors))
        self._types = weights.types

    def _use(self, kept: Any) -> None:
        """Passes over each kept layer have commands of their own, in the memory of one. Those whose memory is too small
        for one of other types are made anew beside it when their turn comes.
        """
        if kept not in self._kept:
            recording = record(self._record, kept.tensors)
            beside = next(iter(self._kept.values()), None)
            if beside is not None and beside.nbytes < self._backend.bytes_of(recording):
                self._kept.clear()
                beside = self._program = None  # given back before the next is taken
            self._kept[kept] = compiled(self._backend, recording, beside=beside)
        self._program = self._kept[kept]


def record(make: Record, tensors: Mapping[str, Tensor]) -> Recording:
    recording = Recording()
    for name, ref in make(recording, tensors).items():
        recording.output(name, ref)
    return recording


def compiled(backend: Any, recording: Recording, **options: Any) -> Any:
    """The recording's program, which alone holds on to its weights then.

    A recording and its tensors name each other: left to the collector, layers would stay in memory beside those that
    took their places.
    """
    program = backend.compile(recording, **options)
    recording.commands.clear()
    return program


def fill(staged: Any, matrices: Mapping[str, Matrix]) -> Generator[None, float | None, None]:
    """Bring matrices into staged memory, part by part."""
    for name, matrix in matrices.items():
        step = staged.part_rows(name, PART_BYTES)
        for first in range(0, matrix.shape[0], step):
            staged.bring(name, first, matrix.part(first, min(step, matrix.shape[0] - first)))
            yield


def layer_bytes(backend: Any, make: Record, weights: LayerWeights) -> int:
    """Memory that a layer takes with its pass."""
    types = weights.types
    stand_ins = {
        name: Tensor(name, shape, int(kind), Path(name), (kind, _NONE)) for name, (kind, shape) in types.items()
    }
    sizes = (math.prod(shape) // kind.block_size * kind.block_bytes for kind, shape in types.values())
    return sum(sizes) + backend.bytes_of(record(make, stand_ins))


_NONE = np.empty(0, np.uint8)
