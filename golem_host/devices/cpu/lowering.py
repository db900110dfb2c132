"""From recorded operations to native commands: which kernel, which pointers, which constants.

An operation without an entry here, or one the native library refuses for its weight type, runs as its torch twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from golem_host.devices.cpu.cache import CpuCache
from golem_host.devices.cpu.resident import Resident
from golem_host.devices.cpu.state import CpuState
from golem_host.kernels.library import GateKind, Kernels, RopeAxes
from golem_host.kernels.library import Op as Kernel
from golem_host.ops.attention import Attention, CacheStore
from golem_host.ops.conv import CausalConv
from golem_host.ops.delta import Decay, GatedDelta
from golem_host.ops.elementwise import Add, AddRow, MultiplyRow, Scale, Softcap
from golem_host.ops.embedding import Rows, Select
from golem_host.ops.experts import ExpertLinear, Mix, Route
from golem_host.ops.full_attention import FullAttention
from golem_host.ops.gate import FloatGelu, Gate
from golem_host.ops.hadamard import Hadamard
from golem_host.ops.image import Conv2d
from golem_host.ops.largest import ArgLargest, BlockMaxima
from golem_host.ops.linear import Linear
from golem_host.ops.narrow import Narrow
from golem_host.ops.norm import L2Norm, LayerNorm, RmsNorm
from golem_host.ops.recording import Axis, Command, Ref
from golem_host.ops.rope import Rope, RopeAngles
from golem_host.ops.slot_cache import CacheType
from golem_host.ops.temperature import Temperature
from golem_host.ops.texts import Mean, TextAttention
from golem_host.ops.windows import CausalWindows
from golem_host.weights.tensor import Tensor

ACT_F32 = 0
"""The activation kind of float32 weights: the rows themselves."""
_CACHE_TYPE = {CacheType.F16: 0, CacheType.F32: 1, CacheType.Q8_0: 8}


@dataclass(frozen=True, eq=False)
class Vector:
    """A pointer to a small weight as float32, whatever type it is stored in."""

    tensor: Tensor


@dataclass(frozen=True, eq=False)
class Transposed:
    """A pointer to a small matrix as float32 with its axes exchanged."""

    tensor: Tensor


@dataclass
class Step:
    """One entry of a program before memory is planned: a native command (`kernel`) or a torch twin (`command`).

    `pointers` holds what each pointer slot shows: tensors of the pass, weights, vectors, arrays, or None. `live_axis`
    (slot, axis) asks for the index of an axis in an integer slot. `multiplied` is what a product multiplies, or what is
    quantized for products; `with_next` lets a product run at the same time as the next step.
    """

    axis: Axis
    reads: list[Ref]
    writes: Ref | None
    in_place: list[Ref] = field(default_factory=list)
    kernel: Kernel | None = None
    pointers: list[Any] = field(default_factory=list)
    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    live_axis: tuple[int, Axis] | None = None
    command: Command | None = None
    multiplied: Ref | None = None
    with_next: bool = False


class Lowering:
    """Turns the commands of one recording into steps. Without `kernels` every step is a torch twin.

    `resident` says where weights lie that products read.
    """

    def __init__(self, kernels: Kernels | None, resident: Callable[[Tensor], Resident]) -> None:
        self.kernels = kernels
        self.resident = resident
        self._activations: dict[tuple[Ref, int, int], Ref] = {}
        self.steps: list[Step] = []

    def lower(self, command: Command) -> None:
        lower = _LOWER.get(type(command.op))
        if self.kernels is None or lower is None or not self._takes_types(command):
            self.steps.append(self._twin(command))
            return
        step = lower(self, command.op, command.output, *command.inputs)
        step.in_place = [command.inputs[i] for i in command.in_place]
        self.steps.append(step)

    def _takes_types(self, command: Command) -> bool:
        """Whether the library multiplies by and looks up rows of these weight types."""
        assert self.kernels is not None
        if not isinstance(command.op, Linear | Rows | ExpertLinear):
            return True
        tensor = next(each for each in command.inputs if isinstance(each, Tensor))
        kind = self.kernels.act_kind(tensor.type)
        return kind >= 0 and (kind == ACT_F32 or self.kernels.act_bytes(kind, tensor.shape[-1]) > 0)

    def _twin(self, command: Command) -> Step:
        reads = [each for each in command.inputs if isinstance(each, Ref)]
        axis = reads[-1].axis if command.output is None else command.output.axis
        return Step(axis, reads, command.output, command=command)

    def activation(self, x: Ref, weight: Tensor) -> Ref:
        """`x` as the activation rows a product with `weight` wants; products that share an input share them."""
        assert self.kernels is not None
        kind, n = self.kernels.act_kind(weight.type), weight.shape[-1]
        if kind == ACT_F32:
            return x
        key = (x.root, kind, n)
        if key not in self._activations:
            inner = x.width // n
            out = Ref(x.recording, x.axis, (inner, self.kernels.act_bytes(kind, n)), "u8")
            step = _step(Kernel.ACT, out, [out, x], [n, kind, inner])
            step.multiplied = x.root
            self.steps.append(step)
            self._activations[key] = out
        return self._activations[key]


def _step(
    kernel: Kernel, output: Ref | None, pointers: list[Any], ints: list[int], floats: list[float] | None = None
) -> Step:
    refs = [each for each in pointers if isinstance(each, Ref)]
    axis = refs[0].axis if output is None else output.axis
    reads = [each for each in refs if each is not output]
    return Step(axis, reads, output, kernel=kernel, pointers=pointers, ints=ints, floats=floats or [])


def _vector(tensor: Tensor | None) -> Vector | None:
    return None if tensor is None else Vector(tensor)


def _rows(_: Lowering, op: Rows, out: Ref, table: Tensor, ids: Ref) -> Step:
    return _step(Kernel.ROWS, out, [out, ids, table], [table.shape[1], table.type, table.row_bytes, table.shape[0]])


def _linear(low: Lowering, op: Linear, out: Ref, x: Ref, weight: Tensor, bias: Tensor | None) -> Step:
    activation = low.activation(x, weight) if op.rounds else x
    held = low.resident(weight)
    together = 0  # said later
    ints = [*weight.shape, weight.type, held.laid, together, not op.rounds]
    step = _step(Kernel.MATMUL, out, [out, activation, held.data, _vector(bias)], ints)
    step.multiplied = x.root
    return step


def _route(_: Lowering, op: Route, out: Ref, logits: Ref, scale: Tensor | None) -> Step:
    return _step(Kernel.ROUTE, out, [out, logits, _vector(scale)], [logits.width, op.used, op.weighting], [op.factor])


def _expert_linear(low: Lowering, op: ExpertLinear, out: Ref, x: Ref, routes: Ref, weight: Tensor) -> Step:
    experts, stride, k = weight.shape
    used, m = out.shape
    assert low.kernels is not None
    held = low.resident(weight)
    if held.laid and op.first % low.kernels.tile_rows(weight.type):
        held = Resident(weight.data, laid=False)  # rows that begin within a tile
    ints = [m, k, weight.type, experts, used, x.width // k, stride, op.first, held.laid]
    return _step(Kernel.EXPERTS, out, [out, low.activation(x, weight), routes, held.data], ints)


def _mix(_: Lowering, op: Mix, out: Ref, y: Ref, routes: Ref) -> Step:
    return _step(Kernel.MIX, out, [out, y, routes], [out.width, y.shape[0]])


def _rms_norm(_: Lowering, op: RmsNorm, out: Ref, x: Ref, weight: Tensor | None) -> Step:
    n = x.shape[-1]
    return _step(Kernel.RMS_NORM, out, [out, x, _vector(weight)], [n, x.width // n], [op.eps])


def _rope_angles(_: Lowering, op: RopeAngles, out: Ref, positions: Ref, factors: Tensor | None) -> Step:
    yarn = op.yarn
    floats = [op.base, op.scale, yarn.extrapolation, yarn.attention_factor, yarn.beta_fast, yarn.beta_slow]
    ints = [op.dims, yarn.original_context]
    if op.sections is not None:
        axes = RopeAxes.INTERLEAVED if op.sections.interleaved else RopeAxes.SECTIONED
        ints += [axes, *op.sections.sizes]
    return _step(Kernel.ROPE_ANGLES, out, [out, positions, _vector(factors)], ints, floats)


def _rope(_: Lowering, op: Rope, out: Ref, x: Ref, angles: Ref) -> Step:
    return _step(Kernel.ROPE, out, [out, x, angles], [*x.shape, op.dims, op.style])


def _store(_: Lowering, op: CacheStore, out: None, cache: CpuCache, k: Ref, v: Ref, slots: Ref, at: Ref) -> Step:
    ints = [cache.kv_heads, cache.key_dim, cache.value_dim, cache.cells, cache.slots, _CACHE_TYPE[cache.type]]
    return _step(Kernel.STORE, None, [cache.keys, cache.values, k, v, slots, at], ints)


def _attention(_: Lowering, op: Attention, out: Ref, q: Ref, cache: CpuCache, slots: Ref, at: Ref) -> Step:
    ints = [q.shape[0], cache.kv_heads, cache.key_dim, cache.value_dim, cache.cells, cache.slots, op.window]
    ints += [_CACHE_TYPE[cache.type], op.block]
    return _step(Kernel.ATTN, out, [out, q, cache.keys, cache.values, slots, at], ints, [op.scale, op.softcap])


def _layer_norm(_: Lowering, op: LayerNorm, out: Ref, x: Ref, weight: Tensor, bias: Tensor | None) -> Step:
    return _step(Kernel.LAYER_NORM, out, [out, x, _vector(weight), _vector(bias)], [x.width], [op.eps])


def _l2_norm(_: Lowering, op: L2Norm, out: Ref, x: Ref) -> Step:
    return _step(Kernel.L2_NORM, out, [out, x], [op.size, op.groups, x.width], [op.eps])


def _narrow(_: Lowering, op: Narrow, out: Ref, x: Ref) -> Step:
    return _step(Kernel.COPY, out, [out, x], [op.size, out.width // op.size, x.shape[-1], op.first])


def _decay(_: Lowering, op: Decay, out: Ref, x: Ref, rate: Tensor, bias: Tensor) -> Step:
    return _step(Kernel.DECAY, out, [out, x, _vector(rate), _vector(bias)], [x.width])


def _conv(_: Lowering, op: CausalConv, out: Ref, x: Ref, weight: Tensor, state: CpuState, slots: Ref, at: Ref) -> Step:
    pointers = [out, x, Transposed(weight), state.values, state.taken, slots, at]
    return _step(Kernel.CONV, out, pointers, [*weight.shape, state.slots])


def _windows(_: Lowering, op: CausalWindows, out: Ref, x: Ref, state: CpuState, slots: Ref, at: Ref) -> Step:
    ints = [x.width, op.steps, op.taps, op.stride, state.slots, op.repeat]
    step = _step(Kernel.WINDOWS, out, [out, x, state.values, state.taken, slots, at], ints)
    step.axis = slots.axis
    return step


def _delta(
    _: Lowering, op: GatedDelta, out: Ref, qkv: Ref, decay: Ref, beta: Ref, state: CpuState, slots: Ref, at: Ref
) -> Step:
    pointers = [out, qkv, decay, beta, state.values, state.taken, slots, at]
    return _step(Kernel.DELTA, out, pointers, [op.key_heads, *state.shape, state.slots], [op.scale])


def _hadamard(_: Lowering, op: Hadamard, out: Ref, x: Ref, signs: Tensor | None) -> Step:
    ints = [out.width, op.block, op.signs_after, *op.exchanged]
    return _step(Kernel.HADAMARD, out, [out, x, _vector(signs)], ints)


def _gate(_: Lowering, op: Gate, out: Ref, gate: Ref, up: Ref | None = None) -> Step:
    return _step(Kernel.GATE, out, [out, gate, up], [out.width, op.activation])


def _float_gelu(_: Lowering, op: FloatGelu, out: Ref, x: Ref) -> Step:
    return _step(Kernel.GATE, out, [out, x, None], [out.width, GateKind.GELU_TANH_F32])


def _add_row(_: Lowering, op: AddRow, out: Ref, x: Ref, row: Tensor) -> Step:
    return _step(Kernel.ADD, out, [out, x, Vector(row)], [out.width, 1])


def _multiply_row(_: Lowering, op: MultiplyRow, out: Ref, x: Ref, row: Tensor) -> Step:
    return _step(Kernel.MUL, out, [out, x, Vector(row)], [out.width, 1])


def _full_attention(_: Lowering, op: FullAttention, out: Ref, q: Ref, k: Ref, v: Ref) -> Step:
    ints = [q.shape[0], *k.shape, 0, 0, 0, op.causal, op.coarse]
    step = _step(Kernel.FULL_ATTN, out, [out, q, k, v], ints, [op.scale])
    step.live_axis = (3, k.axis)
    return step


def _conv2d(_: Lowering, op: Conv2d, out: Ref, x: Ref, weight: Tensor, bias: Tensor | None) -> Step:
    step = _step(Kernel.CONV2D, out, [out, x, weight, _vector(bias)], [out.width, x.width, op.width])
    step.live_axis = (3, x.axis)
    return step


def _add(_: Lowering, op: Add, out: Ref, x: Ref, y: Ref) -> Step:
    return _step(Kernel.ADD, out, [out, x, y], [out.width, 0])


def _scale(_: Lowering, op: Scale, out: Ref, x: Ref) -> Step:
    return _step(Kernel.SCALE, out, [out, x], [out.width], [op.factor])


def _temperature(_: Lowering, op: Temperature, out: Ref, x: Ref, at: Ref) -> Step:
    return _step(Kernel.TEMPERATURE, out, [out, x, at], [out.width, op.period], [op.strength])


def _softcap(_: Lowering, op: Softcap, out: Ref, x: Ref) -> Step:
    return _step(Kernel.SOFTCAP, out, [out, x], [out.width], [op.cap])


def _select(_: Lowering, op: Select, out: Ref, x: Ref, index: Ref) -> Step:
    step = _step(Kernel.SELECT, out, [out, x, index], [out.width, 0, 0])
    step.live_axis = (1, x.axis)
    return step


def _text_attention(_: Lowering, op: TextAttention, out: Ref, q: Ref, k: Ref, v: Ref, texts: Ref) -> Step:
    return _step(Kernel.TEXT_ATTN, out, [out, q, k, v, texts], [*q.shape, op.window], [op.scale])


def _mean(_: Lowering, op: Mean, out: Ref, x: Ref, first: Ref, count: Ref) -> Step:
    step = _step(Kernel.MEAN, out, [out, x, first, count], [out.width, 0, 0])
    step.live_axis = (1, x.axis)
    return step


def _block_maxima(_: Lowering, op: BlockMaxima, out: Ref, x: Ref) -> Step:
    return _step(Kernel.BLOCK_MAXIMA, out, [out, x], [op.count, x.width])


def _arg_largest(_: Lowering, op: ArgLargest, out: Ref, x: Ref, maxima: Ref) -> Step:
    return _step(Kernel.ARG_LARGEST, out, [out, x, maxima], [op.count, x.width])


_LOWER: dict[type, Callable[..., Step]] = {
    Rows: _rows,
    Linear: _linear,
    RmsNorm: _rms_norm,
    RopeAngles: _rope_angles,
    Rope: _rope,
    CacheStore: _store,
    Attention: _attention,
    LayerNorm: _layer_norm,
    L2Norm: _l2_norm,
    Narrow: _narrow,
    Decay: _decay,
    CausalConv: _conv,
    CausalWindows: _windows,
    GatedDelta: _delta,
    Hadamard: _hadamard,
    Gate: _gate,
    Add: _add,
    Scale: _scale,
    Softcap: _softcap,
    Temperature: _temperature,
    Select: _select,
    TextAttention: _text_attention,
    Mean: _mean,
    Route: _route,
    ExpertLinear: _expert_linear,
    Mix: _mix,
    BlockMaxima: _block_maxima,
    ArgLargest: _arg_largest,
    FloatGelu: _float_gelu,
    AddRow: _add_row,
    MultiplyRow: _multiply_row,
    FullAttention: _full_attention,
    Conv2d: _conv2d,
}
