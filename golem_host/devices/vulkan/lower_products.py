"""Products with weights, dense and of experts, and rows of tables: which shader, which shape, which constants.

A pass of few columns is bound by memory and takes `product_few`, one of many columns by arithmetic and takes
`product_many`. Both sum in the order of the CPU's kernels, so a row has the same bits whichever computes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from golem_host.devices.vulkan import layouts
from golem_host.devices.vulkan.dispatch import LIVE, Dispatch, Lower, Lowering, Vector
from golem_host.ops.embedding import Rows
from golem_host.ops.experts import ExpertLinear
from golem_host.ops.linear import Linear
from golem_host.ops.recording import Axis, Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

FEW = 8
"""Columns that `product_few` takes at most: more would need more registers than a lane has."""
_SLICES = 16  # of a row, read side by side by `product_few`
_SPAN = 512  # inputs of a row of floats that are summed one after another, by one lane (`product.glsl`)
_FEW_LANES = 128
_FEW_WORDS = 8  # that a lane leaves for others between two barriers: little enough for several workgroups at once
_LANES = 256
_ACROSS = 16  # lanes of `product_many` with neighbouring rows
_MANY_TILES = 1024  # of eight rows: so many keep a large device busy two at a time
_SPREAD = 32768  # workgroups along one axis of a grid, well within what every device allows
_FLOATS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
_SUMS = (GgmlType.Q4_1, GgmlType.Q5_1)  # their minimums are multiplied with rounded sums
_MINIMUMS = (*_SUMS, GgmlType.Q2_K, GgmlType.Q4_K, GgmlType.Q5_K)


@dataclass(frozen=True)
class _Shape:
    """How many columns and rows a workgroup of a product shader takes."""

    kernel: str
    columns: int
    rows: int
    constants: tuple[int, ...]


def _few(columns: int, rows: int, kind: GgmlType, width: int) -> _Shape:
    taken = next(each for each in (1, 2, 4, FEW) if columns <= each)
    # A column's activations are read once for both tiles; two words of each sum would take too much shared memory.
    tiles = 2 if taken >= 4 and layouts.matrix_tiles(rows) >= _MANY_TILES and kind not in _MINIMUMS else 1
    blocks = -(-width // (_SPAN if kind in _FLOATS else kind.block_size))
    slices = _SLICES
    while slices // 2 >= blocks:
        slices //= 2  # lanes without a block take other rows
    rounds = -(-blocks // slices)
    words = taken * tiles * (2 if kind in _MINIMUMS else 1)  # of shared memory that a lane fills in a round
    turns = -(-rounds // max(1, min(4, _FEW_WORDS // words)))
    height = _FEW_LANES // slices * tiles
    return _Shape("product_few", taken, height, (_FEW_LANES, taken, tiles, slices, -(-rounds // turns), turns))


def _many(low: Lowering, columns: int) -> _Shape:
    each_column = 1 if columns <= 16 else 2 if columns <= 32 else 4
    each_row = 4
    if low.gpu.limits.shared_memory < 24 << 10:
        each_column, each_row = min(each_column, 2), 2
    taken = _LANES // _ACROSS * each_column
    return _Shape("product_many", taken, _ACROSS * each_row, (_LANES, each_column, each_row))


def _kernel(low: Lowering, shape: _Shape, kind: GgmlType) -> str:
    dot = "_dot" if low.gpu.features.idot and kind not in _FLOATS else ""
    return f"{shape.kernel}_{kind.name.lower()}{dot}"


def _activations(low: Lowering, x: Ref, kind: GgmlType, width: int) -> Ref | None:
    """`x` as the rows of `width` a product with weights of `kind` reads; products that share an input share them."""
    inner = x.width // width
    if x.axis.capacity * inner > low.gpu.limits.workgroup_counts[1]:
        return None
    pieces = layouts.pieces(kind, width)
    numbers: list[int | float | Axis] = [x.axis, width, pieces, inner]
    words = pieces * 8 if kind in _FLOATS else pieces * 10
    if kind in _FLOATS:
        kernel, constants = "quantize_floats", (_FEW_LANES, 32 if kind is GgmlType.F32 else 16, kind is GgmlType.BF16)
    else:
        block = 256 if kind.block_size == 256 else 32  # of Q8_K, else of Q8_0 and Q8_1
        kernel, constants = f"quantize_blocks_{block}", (_FEW_LANES, kind in _SUMS)
    if kind is GgmlType.F32 and words == width:
        return x

    def make() -> tuple[Ref, list[Dispatch]]:
        out = low.scratch(x.axis, inner, words, dtype="i32")
        each = words if kind in _FLOATS else pieces * 8  # a lane has a word of codes
        grid = (-(-each // _FEW_LANES), x.axis.capacity * inner, 1)
        return out, [Dispatch(kernel, constants, [x, LIVE, out], numbers, grid, x.axis, [x], out)]

    return low.shared((x.root, kernel, constants, width), make)


def _rows(low: Lowering, op: Rows, out: Ref, table: Tensor, ids: Ref) -> list[Dispatch] | None:
    kind, (count, width) = table.type, table.shape
    if not layouts.has_layout(kind) or ids.axis.capacity > low.gpu.limits.workgroup_counts[1]:
        return None
    pieces = layouts.pieces(kind, width)
    grid = (-(-pieces // 64), ids.axis.capacity, 1)
    made = []
    for part in low.pieces(table):
        first = part.tiles.start * layouts.TILE
        bound = min(part.tiles.stop * layouts.TILE, count) - first
        numbers: list[int | float | Axis] = [ids.axis, width, pieces, first, bound, count]
        name = f"table_rows_{kind.name.lower()}"
        made.append(Dispatch(name, (64,), [part, ids, LIVE, out], numbers, grid, ids.axis, [ids], out))
    return made


def _linear(low: Lowering, op: Linear, out: Ref, x: Ref, weight: Tensor, bias: Tensor | None) -> list[Dispatch] | None:
    if not layouts.has_layout(weight.type):
        return None
    # Shaders multiply halves with halves: where inputs must not be rounded, weights become floats.
    kind = weight.type if op.rounds else GgmlType.F32
    activations = _activations(low, x, kind, weight.shape[-1])
    if activations is None:
        return None
    (count, width), columns = weight.shape, x.axis.capacity
    shape = _few(columns, count, kind, width) if columns <= FEW else _many(low, columns)
    pieces = layouts.pieces(kind, width)
    made = []
    for part in low.pieces(weight, kind=kind):
        first = part.tiles.start * layouts.TILE
        rows = min(part.tiles.stop * layouts.TILE, count) - first
        numbers: list[int | float | Axis] = [x.axis, rows, pieces, 0, 0, first, count]
        numbers += [0] * 6
        made.append(
            Dispatch(
                _kernel(low, shape, kind),
                (*shape.constants, False, bias is not None),
                [part, activations, LIVE if bias is None else Vector(bias), LIVE, LIVE, out],
                numbers,
                _grid(shape, rows, -(-columns // shape.columns)),
                x.axis,
                [activations],
                out,
            )
        )
    return made


def _grid(shape: _Shape, rows: int, groups: int) -> tuple[int, int, int]:
    blocks = -(-rows // shape.rows)
    return (min(blocks, _SPREAD), groups, -(-blocks // _SPREAD))


def _expert_linear(
    low: Lowering, op: ExpertLinear, out: Ref, x: Ref, routes: Ref, weight: Tensor
) -> list[Dispatch] | None:
    kind, (experts, height, width) = weight.type, weight.shape
    if not layouts.has_layout(kind):
        return None
    used, columns = routes.shape[0], x.axis.capacity
    expected = columns * used / experts  # columns of an expert
    few = columns <= FEW or expected <= FEW
    shape = _few(min(columns, FEW), op.rows, kind, width) if few else _many(low, int(expected))
    most_groups = min(columns * used, columns * used // shape.columns + experts + 1)
    activations = _activations(low, x, kind, width)
    if activations is None or most_groups > low.gpu.limits.workgroup_counts[1]:
        return None
    groups = _groups(low, routes, experts, shape.columns, most_groups)
    pieces, matrix_tiles = layouts.pieces(kind, width), layouts.matrix_tiles(height)
    first_tile, skip = divmod(op.first, layouts.TILE)
    made = []
    for part in low.pieces(weight, matrix_tiles):
        numbers: list[int | float | Axis] = [x.axis, op.rows, pieces, first_tile, skip, 0, op.rows]
        numbers += [matrix_tiles, part.tiles.start // matrix_tiles, len(part.tiles) // matrix_tiles]
        numbers += [experts, used, x.width // width]
        made.append(
            Dispatch(
                _kernel(low, shape, kind),
                (*shape.constants, True, False),
                [part, activations, LIVE, LIVE, groups, out],
                numbers,
                _grid(shape, skip + op.rows, most_groups),
                x.axis,
                [activations, groups],
                out,
            )
        )
    return made


def _groups(low: Lowering, routes: Ref, experts: int, most: int, most_groups: int) -> Ref:
    """Columns in the order of their experts, cut in groups of at most `most` (`group_experts.comp`)."""
    rows, used = routes.axis.capacity, routes.shape[0]

    def make() -> tuple[Ref, list[Dispatch]]:
        words = 4 + 3 * most_groups + rows * used + experts + 1
        out = low.scratch(routes.axis, -(-words // rows), dtype="i32")
        numbers: list[int | float | Axis] = [routes.axis, rows, used, experts, most_groups]
        buffers = [routes, LIVE, out]
        made = Dispatch("group_experts", (_LANES, most), buffers, numbers, (1, 1, 1), routes.axis, [routes], out)
        return out, [made]

    return low.shared((routes.root, "groups", experts, most), make)


LOWER: dict[type, Lower] = {Rows: _rows, Linear: _linear, ExpertLinear: _expert_linear}
