"""What the CPU device offers to models: programs, caches, recurrent states, and the choice of tokens from logits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cpu.cache import CpuCache
from golem_host.devices.cpu.program import Program, kept_of, steps_of
from golem_host.devices.cpu.resident import Resident, ResidentWeights, multipliers
from golem_host.devices.cpu.staged import StagedWeights
from golem_host.devices.cpu.state import CpuState
from golem_host.devices.device import WIDEST_PASS
from golem_host.devices.plan import plan, size_of
from golem_host.kernels import library
from golem_host.ops.recording import Recording
from golem_host.ops.slot_cache import CacheType
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

log = logging.getLogger("golem_host.devices.cpu")


class CpuBackend:
    """Compiles recordings for this processor, with `threads` compute threads, the device thread included.

    `native=False` computes everything with the torch twins. `repack=False` leaves weights where the file is mapped.
    `widest_pass` is the most columns that a pass should have.
    """

    widest_pass = WIDEST_PASS

    def __init__(self, *, threads: int, native: bool = True, repack: bool = True) -> None:
        self.threads = threads
        self.kernels = library.load() if native else None
        self._resident = ResidentWeights(self.kernels, threads) if self.kernels is not None and repack else None
        self._transposed: WeakKeyDictionary[Tensor, NDArray[np.float32]] = WeakKeyDictionary()
        self._vectors: WeakKeyDictionary[Tensor, NDArray[np.float32]] = WeakKeyDictionary()
        if native and self.kernels is None:
            log.warning("computing with torch, slowly: %s", library.why_missing())
        if self.kernels is None:
            import torch

            torch.set_num_threads(self.threads)

    @property
    def arithmetic(self) -> str:
        """What decides the bits of results beside the inputs: where it is the same, so are they."""
        return "torch" if self.kernels is None else self.kernels.isa

    @cached_property
    def pool(self) -> library.Pool:
        """The compute threads."""
        assert self.kernels is not None
        return self.kernels.pool(self.threads)

    def prepare(self, recording: Recording, progress: Callable[[float], None]) -> None:
        """Bring the weights that `recording` multiplies by into memory, in the order this processor reads them fastest.

        Recordings compiled afterwards use them; the bits of results stay the same. Their memory is given back when the
        file's tensors are gone. `progress` takes the share done. May run beside a pass, on any thread.
        """
        if self._resident is not None:
            self._resident.take(multipliers(recording), progress)

    def resident(self, tensor: Tensor) -> Resident:
        """Where a weight that products read lies."""
        return Resident(tensor.data, laid=False) if self._resident is None else self._resident.get(tensor)

    def compile(self, recording: Recording, *, beside: Program | None = None) -> Program:
        """The recording's program. It shares the memory of what it computes with the one `beside`: what a replay of
        either gives is read before the other is filled; and what is known of how long commands take.
        """
        return Program(self, recording, beside)

    def bytes_of(self, recording: Recording) -> int:
        """Memory that the compiled recording would take, without its weights; nothing is allocated."""
        inputs = list(recording.inputs.values())
        _, size = plan(steps_of(self, recording), kept_of(recording), outside=inputs)
        return size + sum(map(size_of, inputs))

    def stage(self, wanted: Mapping[str, tuple[GgmlType, tuple[int, ...]]]) -> StagedWeights:
        """Memory for weights that recordings are made with before their values are there; see `StagedWeights`."""
        return StagedWeights(wanted, self._resident, self.pool.run if self.kernels is not None else None)

    def cache(
        self, *, slots: int, cells: int, kv_heads: int, key_dim: int, value_dim: int, type: CacheType = CacheType.F16
    ) -> CpuCache:
        """Keys and values of one layer; see `CpuCache`."""
        return CpuCache(slots=slots, cells=cells, kv_heads=kv_heads, key_dim=key_dim, value_dim=value_dim, type=type)

    def state(self, *, slots: int, shape: tuple[int, ...]) -> CpuState:
        """Recurrent state of one layer; see `CpuState`."""
        return CpuState(slots=slots, shape=shape)

    def transposed(self, tensor: Tensor) -> NDArray[np.float32]:
        """A small matrix as float32 with its axes exchanged, kept in memory of its own."""
        known = self._transposed.get(tensor)
        if known is None:
            known = self._transposed[tensor] = np.ascontiguousarray(tensor.float32().T)
        return known

    def vector(self, tensor: Tensor) -> NDArray[np.float32]:
        """A small weight (norm, bias) as float32; the mapping itself where it is stored so."""
        if tensor.type is GgmlType.F32:
            return tensor.data.view(np.float32)
        known = self._vectors.get(tensor)
        if known is None:
            known = self._vectors[tensor] = np.ascontiguousarray(tensor.float32())
        return known
