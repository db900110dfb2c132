"""What the lowering functions make of recorded operations: dispatches, before memory is planned or anything is bound.

A cache has views `keys` and `values` (`VulkanCache` says how they lie); a state has a view `values`, float32 (slots,
*shape). Ids, slots and positions of a pass are checked before it is submitted;
shaders must still stay inside their buffers whatever they read.

A lowering function is `lower(low, op, out, *inputs) -> list[Dispatch] | None`: `inputs` as the operation was recorded
with, `out` its output or None. None says that no shader takes these types or shapes; the torch twin runs instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from golem_host.devices.vulkan import layouts
from golem_host.ops.recording import Axis, Recording, Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType


class Live:
    """The type of `LIVE`."""


LIVE = Live()
"""The buffer of live rows: one int32 for each axis of the recording; shaders get an axis's index in a push constant."""


@dataclass(frozen=True)
class Weights:
    """Tiles `tiles` of a matrix, or of a stack of matrices, as `layouts` lays them on the device.

    Made by `Lowering.pieces`. It takes `len(tiles) * layouts.tile_bytes(kind, columns)` bytes, which
    `layouts.laid(tensor, tiles, kind)` yields some at a time. `kind` is the tensor's type, or F32 for its values.
    """

    tensor: Tensor
    tiles: range
    kind: GgmlType


@dataclass(frozen=True)
class Vector:
    """A small weight as float32, whatever type it is stored in."""

    tensor: Tensor


@dataclass(frozen=True)
class Transposed:
    """A small matrix as float32 with its axes exchanged."""

    tensor: Tensor


@dataclass
class Dispatch:
    """One run of a shader.

    `buffers[i]` is bound at binding i: a tensor of the pass (`Ref`, also one made by `Lowering.scratch`), `Weights`,
    `Vector`, `Transposed`, a view of a cache or a state, or `LIVE`. `constants` are the specialization constants from
    id 0 (local_size_x) on. `numbers` are the push constants in their order, 4 bytes each: int as int32, float as
    float32, an `Axis` as its index in `LIVE`. `grid` counts workgroups for the full capacity of `axis`, the axis of the
    rows it writes.

    `reads` and `writes` are tensors of the pass; `in_place` names those of `reads` whose memory `writes` may take over;
    `stores` the views among `buffers` (of caches, states) that it writes. Dispatches between which none of these ties
    an order may run at the same time, so what is not named here is not waited for.
    """

    kernel: str
    constants: tuple[int | float, ...]
    buffers: list[Any]
    numbers: list[int | float | Axis]
    grid: tuple[int, int, int]
    axis: Axis
    reads: list[Ref]
    writes: Ref | None
    in_place: list[Ref] = field(default_factory=list)
    stores: list[Any] = field(default_factory=list)


class DeviceFacts(Protocol):
    """What lowering may ask of the device (`Gpu`)."""

    @property
    def limits(self) -> Any: ...

    @property
    def subgroup_size(self) -> int: ...

    @property
    def features(self) -> Any: ...


Lower = Callable[..., list[Dispatch] | None]


class Lowering:
    """What lowering functions are handed: facts of the device, and what the operations of one recording share."""

    def __init__(self, gpu: DeviceFacts, recording: Recording, max_binding: int) -> None:
        self.gpu = gpu
        self.recording = recording
        self.max_binding = max_binding
        """Bytes that one binding can show."""
        self._shared: dict[Any, tuple[Ref, list[Dispatch]]] = {}
        self._pending: list[Dispatch] = []

    def scratch(self, axis: Axis, *shape: int, dtype: str = "f32") -> Ref:
        """A tensor of the pass that no operation of the recording has: rows of `shape` on `axis`."""
        return Ref(self.recording, axis, shape, dtype)

    def shared(self, key: Any, make: Callable[[], tuple[Ref, list[Dispatch]]]) -> Ref:
        """A tensor that several operations read, made by the first that asks for `key` (quantized activations).

        The dispatches that `make` returns run before those of the operation that asked first.
        """
        if key not in self._shared:
            self._shared[key] = made = make()
            self._pending += made[1]
        return self._shared[key][0]

    def pieces(self, tensor: Tensor, unit: int = 1, kind: GgmlType | None = None) -> list[Weights]:
        """A laid matrix, or stack, in ranges of tiles that one binding can show: nearly always one.

        `kind` is its type unless it is to be held as F32.

        Ranges are multiples of `unit` tiles (those of an expert's matrix). Raises ValueError when not even one unit
        fits a binding.
        """
        kind = tensor.type if kind is None else kind
        size = layouts.tile_bytes(kind, tensor.shape[-1])
        most = self.max_binding // (size * unit) * unit
        if not most:
            raise ValueError(
                f"{tensor.name}: {unit} tiles of {size} bytes do not fit the {self.max_binding} bytes that this "
                "device shows a shader at once"
            )
        count = layouts.tiles(tensor)
        return [Weights(tensor, range(at, min(at + most, count)), kind) for at in range(0, count, most)]

    def taken(self) -> list[Dispatch]:
        """The dispatches of shared tensors made since the last call."""
        taken, self._pending = self._pending, []
        return taken
