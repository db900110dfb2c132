"""A model on two devices: the first commands of a pass on one, the others on the other, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.cells import CellCopy
from golem_host.devices.halves import halve
from golem_host.ops.recording import DTYPES, Recording
from golem_host.ops.slot_cache import CacheType
from golem_host.weights.tensor import Tensor


class SplitBackend:
    """Compiles recordings for two backends; `cut_at(recording)` numbers the first command of the second.

    Caches and states are made on the device whose commands use them, when the first recording that has them is
    prepared or compiled.
    """

    def __init__(self, first: Any, second: Any, cut_at: Callable[[Recording], int]) -> None:
        self.halves = (first, second)
        self.widest_pass: int = min(first.widest_pass, second.widest_pass)
        self._cut_at = cut_at

    @property
    def arithmetic(self) -> str:
        """Those of both."""
        return " + ".join(half.arithmetic for half in self.halves)

    def prepare(self, recording: Recording, progress: Callable[[float], None]) -> None:
        """See the backends; the second goes first, since it may refuse what does not fit. `progress` counts both."""
        halves = self._halve(recording)
        sizes = [_weight_bytes(each) for each in (halves.first, halves.second)]
        total = max(1, sum(sizes))
        self.halves[1].prepare(halves.second, lambda share: progress(share * sizes[1] / total))
        self.halves[0].prepare(halves.first, lambda share: progress((sizes[1] + share * sizes[0]) / total))
        progress(1.0)

    def compile(self, recording: Recording) -> SplitProgram:
        halves = self._halve(recording)
        programs = (self.halves[0].compile(halves.first), self.halves[1].compile(halves.second))
        return SplitProgram(recording, programs, halves.crossing, (halves.first, halves.second))

    def cache(
        self, *, slots: int, cells: int, kv_heads: int, key_dim: int, value_dim: int, type: CacheType = CacheType.F16
    ) -> SplitCache:
        """Keys and values of one layer, not yet on a device."""
        return SplitCache(slots=slots, cells=cells, kv_heads=kv_heads, key_dim=key_dim, value_dim=value_dim, type=type)

    def state(self, *, slots: int, shape: tuple[int, ...]) -> SplitState:
        """Recurrent state of one layer, not yet on a device."""
        return SplitState(slots=slots, shape=shape)

    def _halve(self, recording: Recording) -> Any:
        def place(each: Any, half: int) -> Any:
            return each.on(self.halves[half]) if isinstance(each, Placed) else each

        return halve(recording, self._cut_at(recording), place)


class Placed:
    """Something that a backend makes when it is known which one uses it. What it can do is then what that made."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._backend: Any = None
        self._made: Any = None

    def on(self, backend: Any) -> Any:
        """What `backend` made. Raises ValueError when another one has made it."""
        if self._backend is None:
            self._made = self._make(backend)
            self._backend = backend
        if self._backend is not backend:
            raise ValueError("layers on different devices share keys and values; put both on one")
        return self._made

    @property
    def made(self) -> Any:
        if self._backend is None:
            raise ValueError("not on a device yet: prepare or compile a recording first")
        return self._made

    def copy_slot(self, source: int, target: int) -> None:
        """Give `target` all that `source` holds."""
        self.made.copy_slot(source, target)


class SplitCache(Placed):
    """A cache of either device."""

    def __init__(self, *, slots: int, cells: int, kv_heads: int, key_dim: int, value_dim: int, type: CacheType) -> None:
        super().__init__(
            lambda backend: backend.cache(
                slots=slots, cells=cells, kv_heads=kv_heads, key_dim=key_dim, value_dim=value_dim, type=type
            )
        )
        self.slots = slots
        self.cells = cells
        self.kv_heads = kv_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.type = type

    def save(self, slot: int, first: int, end: int) -> CellCopy:
        """Copies of the cells of a slot's positions `first` to `end`, the last not included."""
        return self.made.save(slot, first, end)

    def blank(self, first: int, end: int) -> CellCopy:
        """A copy as `save` makes it, without any values."""
        return self.made.blank(first, end)

    def restore(self, slot: int, copy: CellCopy, end: int | None = None) -> None:
        """Put a copy of this layer's cells into the slot: its positions up to `end`, or all."""
        self.made.restore(slot, copy, end)

    def write(self, slot: int, position: int, keys: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """See `golem_host.ops.slot_cache.Cache`."""
        self.made.write(slot, position, keys, values)

    def read(self, slot: int, positions: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `golem_host.ops.slot_cache.Cache`."""
        return self.made.read(slot, positions)


class SplitState(Placed):
    """A recurrent state of either device."""

    def __init__(self, *, slots: int, shape: tuple[int, ...]) -> None:
        super().__init__(lambda backend: backend.state(slots=slots, shape=shape))
        self.slots = slots
        self.shape = shape

    @property
    def values(self) -> Any:
        return self.made.values

    @property
    def taken(self) -> NDArray[np.int32]:
        return self.made.taken

    def save(self, slot: int) -> Any:
        """A copy of what the slot holds."""
        return self.made.save(slot)

    def restore(self, slot: int, checkpoint: Any) -> None:
        """Put a checkpoint of this layer into the slot."""
        self.made.restore(slot, checkpoint)


class SplitProgram:
    """A pass over both devices: fill `inputs`, `run`, read `output`, as with the program of one."""

    def __init__(
        self,
        recording: Recording,
        programs: tuple[Any, Any],
        crossing: tuple[str, ...],
        parts: tuple[Recording, Recording],
    ) -> None:
        self._axes = {name: ref.axis.name for name, ref in (parts[0].outputs | recording.inputs).items()}
        self._programs = programs
        self._crossing = crossing
        halves = list(zip(programs, parts, strict=True))
        self._outputs = {name: program for program, part in halves for name in part.outputs}
        self._names = {name: program for program, part in halves for name in part.names}
        self.inputs: dict[str, NDArray[Any]] = {
            name: np.zeros((ref.axis.capacity, *ref.shape), DTYPES[ref.dtype]) for name, ref in recording.inputs.items()
        }

    def run(self, live: Mapping[str, int]) -> None:
        """Replay with that many live rows on each axis, by name; raises what the programs raise."""
        for program in self._programs:
            for name, array in self.inputs.items():
                if name in program.inputs:
                    rows = max(0, min(live[self._axes[name]], len(array)))
                    program.inputs[name][:rows] = array[:rows]
        first, second = self._programs
        first.run(live)
        for name in self._crossing:
            rows = live[self._axes[name]]
            second.inputs[name][:rows] = first.output(name)
        second.run(live)

    def output(self, name: str) -> NDArray[Any]:
        """The live rows of an output, as a view that the next replay overwrites."""
        return self._outputs[name].output(name)

    def read(self, name: str) -> NDArray[Any]:
        """The live rows of a named intermediate (copied). Raises ValueError when names were not kept."""
        return self._names[name].read(name)


def _weight_bytes(recording: Recording) -> int:
    tensors = {each for command in recording.commands for each in command.inputs if isinstance(each, Tensor)}
    return sum(tensor.nbytes for tensor in tensors)
