"""Recording a pass: model code calls operations on symbolic tensors, and what it called is kept to be replayed.

A recording is neutral: it names operations, their inputs and outputs, never a device. A backend compiles it into a
program (`golem_host.devices.cpu`), which is replayed for any number of live rows up to the recorded capacity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from golem_host.weights.tensor import Tensor

DTYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "i32": np.dtype(np.int32), "u8": np.dtype(np.uint8)}


@dataclass(frozen=True)
class Axis:
    """The rows of a pass: how many there are at most. How many are live is told at each replay, by `name`."""

    name: str
    capacity: int


@dataclass(eq=False)
class Ref:
    """A symbolic tensor: row-major, `axis` first (one row a token, a text, a frame), then `shape`.

    `base` is set for a view of another tensor's rows under another shape. `dtype` is a key of `DTYPES`.
    """

    recording: Recording
    axis: Axis
    shape: tuple[int, ...]
    dtype: str = "f32"
    base: Ref | None = None

    @property
    def width(self) -> int:
        """Values in one row."""
        return math.prod(self.shape)

    @property
    def root(self) -> Ref:
        """The tensor whose memory this one shows."""
        return self if self.base is None else self.base.root

    def reshape(self, *shape: int) -> Ref:
        """The same rows under another shape; nothing is moved. Raises ValueError when the sizes differ."""
        if math.prod(shape) != self.width:
            raise ValueError(f"rows of shape {self.shape} cannot be seen as {shape}")
        return Ref(self.recording, self.axis, tuple(shape), self.dtype, self)

    def named(self, name: str) -> Ref:
        """Give an intermediate a name by which it can be read after a replay (`Recording(keep_names=True)`)."""
        self.recording.names[name] = self
        return self


class Op(Protocol):
    """One operation. Its fields are its constants; a backend looks for a native kernel by the class."""

    @property
    def twin(self) -> Callable[..., Any]:
        """The operation in torch, the reference of every kernel; called with the inputs.

        Tensors on an axis come as torch tensors of the live rows, weights as `Tensor`, caches as the backend's `Cache`.
        A row of the result must not depend, to the bit, on how many rows there are.
        """
        ...


@dataclass(frozen=True)
class Command:
    """One recorded step. `in_place` numbers the inputs whose memory the output may take over."""

    op: Op
    inputs: tuple[Any, ...]
    output: Ref | None
    in_place: tuple[int, ...] = ()


class Recording:
    """The steps of one pass. `keep_names` keeps named intermediates in memory so that they can be read."""

    def __init__(self, *, keep_names: bool = False) -> None:
        self.keep_names = keep_names
        self.axes: list[Axis] = []
        self.inputs: dict[str, Ref] = {}
        self.outputs: dict[str, Ref] = {}
        self.names: dict[str, Ref] = {}
        self.commands: list[Command] = []

    def axis(self, name: str, capacity: int) -> Axis:
        axis = Axis(name, capacity)
        self.axes.append(axis)
        return axis

    def input(self, name: str, axis: Axis, *shape: int, dtype: str = "i32") -> Ref:
        """A part of the parameter block: what differs between replays (token ids, positions, slots)."""
        ref = Ref(self, axis, shape, dtype)
        self.inputs[name] = ref
        return ref

    def output(self, name: str, ref: Ref) -> None:
        """Keep a tensor so that it can be read after the replay."""
        self.outputs[name] = ref

    def append(
        self,
        op: Op,
        inputs: Sequence[Any],
        axis: Axis,
        shape: tuple[int, ...],
        *,
        dtype: str = "f32",
        in_place: tuple[int, ...] = (),
    ) -> Ref:
        """Record a step and return its output. `in_place` names the inputs whose memory the output may take over."""
        output = Ref(self, axis, shape, dtype)
        self.commands.append(Command(op, tuple(inputs), output, in_place))
        return output

    def append_effect(self, op: Op, inputs: Sequence[Any]) -> None:
        """Record a step that writes a cache and has no output."""
        self.commands.append(Command(op, tuple(inputs), None))


@dataclass(frozen=True)
class TorchOp:
    """An operation given as a torch function: a new model starts with these and loses nothing but speed."""

    function: Callable[..., Any]

    def twin(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def torch_op(function: Callable[..., Any], *inputs: Ref | Tensor, axis: Axis, shape: tuple[int, ...]) -> Ref:
    """Record `function` as a step: it gets the live rows of `inputs` as float32 or int32 torch tensors (weights as
    `Tensor`) and returns the rows of the output, shape (live rows, *shape), float32."""
    recording = next(each.recording for each in inputs if isinstance(each, Ref))
    return recording.append(TorchOp(function), inputs, axis, shape)
