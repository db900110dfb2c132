"""Products, experts and table rows have the bits of the CPU's kernels, however many columns there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan import layouts
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.lower_products import LOWER
from golem_host.kernels import library
from golem_host.kernels.library import Act, Kernels, Op
from golem_host.ops.activations import round_as_product_wants
from golem_host.ops.embedding import rows
from golem_host.ops.experts import expert_linear
from golem_host.ops.linear import linear
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType
from ops_checks import activations, weight
from ops_checks import run as run_on_cpu
from vulkan_dispatching import compute, facts, run

FLOATS = ("F32", "F16", "BF16")
BLOCKS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "Q1_0", "Q2_0", "PQ2_0", "PTQ1_0")
SUPER_BLOCKS = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")
TYPES = FLOATS + BLOCKS + SUPER_BLOCKS
WIDE_ROWS = [
    *(("Q4_0", 35 * 32), ("Q8_0", 4096 + 32), ("Q4_1", 4096 + 64), ("Q4_K", 2560), ("Q6_K", 4096 + 256)),
    *(("Q2_0", 2048 + 64), ("PTQ1_0", 4096 + 128), ("F16", 512), ("F16", 9000), ("F32", 1111), ("F32", 1024)),
]

Floats = NDArray[np.float32]


def width_of(kind: str, blocks: int) -> int:
    """An odd width: no multiple of what shaders take at a time."""
    return 37 * blocks if kind in FLOATS else GgmlType[kind].block_size * blocks


def multiply(gpu: Gpu, w: Tensor, x: Floats, bias: Tensor | None = None, **how: Any) -> Floats:
    return compute(gpu, LOWER, lambda x: linear(x, w, bias), {"x": x}, **how)


@pytest.fixture(scope="module")
def cpu() -> CpuBackend:
    cpu_kernels()
    return CpuBackend(threads=1)


def expected(cpu: CpuBackend, w: Tensor, x: Floats, bias: Tensor | None = None, *, rounds: bool = True) -> Floats:
    """What the CPU's kernels give. Those of BF16 take the inputs of a pair in the other order where the processor has
    an instruction for pairs: there, the product of rounded floats, which has the bits of all other processors.
    """
    if w.type is GgmlType.BF16 and rounds:
        x, w = round_as_product_wants(torch.from_numpy(x), w.type).numpy(), as_floats(w)
    return run_on_cpu(cpu, lambda x: linear(x, w, bias, rounds=rounds), {"x": x})


def as_floats(w: Tensor) -> Tensor:
    data = np.ascontiguousarray(w.float32()).view(np.uint8).reshape(-1)
    return Tensor(w.name, w.shape, GgmlType.F32, Path("test.gguf"), (GgmlType.F32, data))


@pytest.mark.parametrize("kind", TYPES)
def test_one_column_and_many_have_the_bits_of_the_cpu(gpu: Gpu, cpu: CpuBackend, kind: str) -> None:
    w, x, bias = weight(kind, 83, width_of(kind, 3)), activations(21, width_of(kind, 3)), weight("F32", 83)
    result = expected(cpu, w, x, bias)
    np.testing.assert_array_equal(multiply(gpu, w, x, bias, capacity=24), result)
    for row in (0, 7, 20):
        np.testing.assert_array_equal(multiply(gpu, w, x[row : row + 1], bias)[0], result[row])


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K", "F16"])
def test_any_number_of_columns_has_the_same_bits(gpu: Gpu, kind: str) -> None:
    w, x = weight(kind, 21, width_of(kind, 2)), activations(8, width_of(kind, 2))
    together = multiply(gpu, w, x)
    for count, capacity in ((1, 2), (2, 2), (3, 4), (4, 4), (8, 16), (8, 64)):
        np.testing.assert_array_equal(multiply(gpu, w, x[:count], capacity=capacity), together[:count])


@pytest.mark.parametrize("kind", ["Q8_0", "Q3_K", "F16"])
@pytest.mark.parametrize("columns", [3, 8])
def test_a_tall_matrix_is_taken_two_tiles_at_a_time(gpu: Gpu, cpu: CpuBackend, kind: str, columns: int) -> None:
    w, x = weight(kind, 8203, 256), activations(columns, 256)
    ran = run(gpu, LOWER, lambda x: linear(x, w), {"x": x})
    assert ran.dispatches[-1].constants[2] == 2
    np.testing.assert_array_equal(ran.output, expected(cpu, w, x))


@pytest.mark.parametrize(("kind", "width"), WIDE_ROWS)
def test_wide_rows_are_summed_in_the_order_of_the_cpu(gpu: Gpu, cpu: CpuBackend, kind: str, width: int) -> None:
    """Several rounds and spans, the last short, for each number of columns that `product_few` takes at once."""
    w, x = weight(kind, 150, width), activations(9, width)
    result = expected(cpu, w, x)
    for columns in (1, 2, 4, 8, 9):
        np.testing.assert_array_equal(multiply(gpu, w, x[:columns]), result[:columns])


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(gpu: Gpu, cpu: CpuBackend, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind, count, columns = rng.choice(TYPES), int(rng.integers(1, 150)), int(rng.integers(1, 20))
    width = int(rng.integers(1, 300)) if kind in FLOATS else width_of(kind, int(rng.integers(1, 7)))
    w, x = weight(kind, count, width), activations(columns, width)
    result = expected(cpu, w, x)
    np.testing.assert_array_equal(multiply(gpu, w, x, capacity=24), result)
    np.testing.assert_array_equal(multiply(gpu, w, x[-1:])[0], result[-1])


@pytest.mark.parametrize("kind", BLOCKS + SUPER_BLOCKS)
def test_without_integer_dot_products_the_bits_are_the_same(gpu: Gpu, kind: str) -> None:
    w, x = weight(kind, 19, width_of(kind, 1)), activations(1, width_of(kind, 1))
    with_dot = multiply(gpu, w, x)
    np.testing.assert_array_equal(multiply(gpu, w, x, seen=facts(gpu, idot=False)), with_dot)


def test_little_shared_memory_changes_no_bits(gpu: Gpu) -> None:
    w, x = weight("Q5_K", 50, 512), activations(40, 512)
    little = facts(gpu, shared_memory=16384, idot=False)
    np.testing.assert_array_equal(multiply(gpu, w, x, seen=little), multiply(gpu, w, x))


@pytest.mark.parametrize("columns", [2, 10])
def test_rows_beyond_the_live_are_not_touched(gpu: Gpu, columns: int) -> None:
    w, x = weight("Q8_0", 13, 64), activations(columns - 1, 64)
    ran = run(gpu, LOWER, lambda x: linear(x, w), {"x": x}, capacity=columns)
    assert np.isfinite(ran.output[:-1]).all()
    assert np.isnan(ran.output[-1]).all()


def test_no_live_row_writes_nothing(gpu: Gpu) -> None:
    w = weight("Q8_0", 13, 64)
    ran = run(gpu, LOWER, lambda x: linear(x, w), {"x": np.empty((0, 64), np.float32)}, capacity=2)
    assert np.isnan(ran.output).all()


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("columns", [1, 20])
def test_inputs_that_must_not_be_rounded(gpu: Gpu, cpu: CpuBackend, kind: str, columns: int) -> None:
    w, x = weight(kind, 83, 111), activations(columns, 111)
    found = compute(gpu, LOWER, lambda x: linear(x, w, rounds=False), {"x": x}, capacity=24)
    np.testing.assert_array_equal(found, expected(cpu, w, x, rounds=False))


@pytest.mark.parametrize("columns", [1, 9])
def test_bias_is_added(gpu: Gpu, columns: int) -> None:
    w, bias, x = weight("Q4_0", 21, 96), weight("F32", 21), activations(columns, 96)
    plain = multiply(gpu, w, x)
    np.testing.assert_array_equal(multiply(gpu, w, x, bias), plain + bias.float32())


@pytest.mark.parametrize("columns", [1, 9])
def test_a_matrix_in_several_bindings(gpu: Gpu, columns: int) -> None:
    w, bias, x = weight("Q6_K", 83, 512), weight("F32", 83), activations(columns, 512)
    tile = layouts.tile_bytes(w.type, 512)
    parts = run(gpu, LOWER, lambda x: linear(x, w, bias), {"x": x}, max_binding=3 * tile + 100)
    assert len([each for each in parts.dispatches if "product" in each.kernel]) == 4
    np.testing.assert_array_equal(parts.output, multiply(gpu, w, x, bias))


@pytest.mark.parametrize("kind", BLOCKS + SUPER_BLOCKS)
def test_extreme_codes_do_not_overflow(gpu: Gpu, cpu: CpuBackend, kind: str) -> None:
    ggml = GgmlType[kind]
    w = weight(kind, 8, 512)
    scales = {"Q2_K": (80, 84), "Q3_K": (108, 110), "Q6_K": (208, 210), "PTQ1_0": (26, 28)}
    first, last = scales.get(kind, (0, 4 if kind in ("Q4_1", "Q5_1", "Q4_K", "Q5_K") else 2))
    blocks = w.data.reshape(8, -1, ggml.block_bytes)
    kept = blocks[..., first:last].copy()
    for row, fill in enumerate((0x00, 0x7F, 0x80, 0xFF, 0x00, 0x7F, 0x80, 0xFF)):
        blocks[row] = fill
    blocks[..., first:last] = kept
    x = np.ones((2, 512), np.float32)
    x[1, ::2] = -1
    np.testing.assert_array_equal(multiply(gpu, w, x), expected(cpu, w, x))


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_K", "F16"])
def test_a_value_that_is_not_finite_shows(gpu: Gpu, kind: str) -> None:
    w, x = weight(kind, 16, 256), activations(3, 256)
    x[1, 100] = np.nan
    result = multiply(gpu, w, x)
    assert np.isnan(result[1]).all()
    assert np.isfinite(result[[0, 2]]).all()


# Activations


def difficult_rows(width: int) -> Floats:
    """Zeros, ties of rounding, ties of the extreme, values from tiny to huge, and what is not finite."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((12, width)).astype(np.float32)
    x[1] = 0
    x[2] = np.arange(width) % 255 - 127 + 0.5
    x[2, ::32] = 127
    x[3] = np.where(np.arange(width) % 3, 2.5, -2.5)
    x[4] = np.where(np.arange(width) % 5, -1.5, 1.5)
    x[5] *= 1e-36
    x[6] *= 3e37
    x[7] *= 2e-5
    x[8, 40] = np.inf
    x[9, 3] = np.nan
    x[10] *= np.float32(10) ** rng.uniform(-6, 6, width).astype(np.float32)
    x[11] *= 1e-40
    return x


def cpu_kernels() -> Kernels:
    path = library.library_path()
    if not path.is_file():
        pytest.skip(library.why_missing())
    return Kernels(path)


def cpu_activations(kind: Act, x: Floats) -> NDArray[np.uint8]:
    """Activation rows of the CPU (rows, bytes); their layout is in activation.h."""
    kernels = cpu_kernels()
    n = x.shape[1]
    out = np.zeros((len(x), kernels.act_bytes(kind, n)), np.uint8)
    command = kernels.ffi.new("golem_cmd *", {"op": Op.ACT, "axis": -1, "rows": len(x)})
    for slot, array in enumerate((out, x)):
        command.p[slot] = kernels.ffi.cast("void *", array.ctypes.data)
    command.i[0], command.i[1] = n, kind
    with kernels.pool(1) as pool:
        pool.run(command, 1, kernels.ffi.NULL)
    return out


def device_activations(gpu: Gpu, kind: str, x: Floats) -> NDArray[np.int32]:
    """Activation rows of the device (rows, words); their layout is in product.glsl."""
    w = weight(kind, 1, x.shape[1])
    ran = run(gpu, LOWER, lambda x: linear(x, w), {"x": x})
    (made,) = (each for each in ran.dispatches if each.kernel.startswith("quantize"))
    assert made.writes is not None
    return ran.tensor(made.writes)[:, 0]


@pytest.mark.parametrize(("kind", "act"), [("Q8_0", Act.Q8_0), ("Q4_1", Act.Q8_1), ("Q4_K", Act.Q8_K)])
def test_activations_are_quantized_as_the_cpu_does(gpu: Gpu, kind: str, act: Act) -> None:
    n = 512 if act is Act.Q8_K else 544
    x = difficult_rows(n)
    cpu, device = cpu_activations(act, x), device_activations(gpu, kind, x)
    pieces = n // 32 + n // 32 % 2
    codes = np.ascontiguousarray(device[:, : pieces * 8]).view(np.int8)
    scales = device[:, pieces * 8 :].reshape(len(x), pieces, 2)
    np.testing.assert_array_equal(codes[:, :n], cpu[:, :n].view(np.int8))
    assert not codes[:, n:].any()
    assert not scales[:, n // 32 :].any()
    blocks = n // 256 if act is Act.Q8_K else n // 32
    d = cpu[:, n : n + 4 * blocks].copy().view(np.float32)
    got = np.ascontiguousarray(scales[:, : n // 32, 0]).view(np.float32)
    np.testing.assert_array_equal(got, np.repeat(d, n // 32 // blocks, -1))
    factors = np.ascontiguousarray(scales[:, : n // 32, 1])
    if act is Act.Q8_1:
        np.testing.assert_array_equal(factors.view(np.float32), cpu[:, n + 4 * blocks :].copy().view(np.float32))
    else:
        np.testing.assert_array_equal(
            factors.view(np.int16).reshape(len(x), -1), codes[:, :n].reshape(len(x), -1, 16).sum(-1)
        )


@pytest.mark.parametrize(("kind", "act"), [("F16", Act.F16), ("BF16", Act.BF16)])
def test_activations_are_rounded_as_the_cpu_does(gpu: Gpu, kind: str, act: Act) -> None:
    x = difficult_rows(101)
    bits = cpu_activations(act, x).view(np.uint32)
    words = np.ascontiguousarray(device_activations(gpu, kind, x)).view(np.uint16)
    device = words.view(np.float16).astype(np.float32) if act is Act.F16 else words.astype(np.uint32) << 16
    np.testing.assert_array_equal(device[:, :101].view(np.float32), bits.view(np.float32))
    assert not words[:, 101:].any()


def test_products_of_one_input_share_its_activations(gpu: Gpu) -> None:
    a, b, c = weight("Q4_0", 8, 64), weight("Q8_0", 8, 64), weight("Q4_1", 8, 64)
    x = activations(1, 64)

    def build(x: Any) -> Any:
        for w in (a, c):
            linear(x, w)
        return linear(x.reshape(8, 8), b)

    ran = run(gpu, LOWER, build, {"x": x})
    assert [each.kernel for each in ran.dispatches if each.kernel.startswith("quantize")] == ["quantize_blocks_32"] * 2


# Rows of tables


@pytest.mark.parametrize("kind", TYPES)
def test_table_rows_are_dequantized_exactly(gpu: Gpu, kind: str) -> None:
    table = weight(kind, 21, width_of(kind, 3))
    ids = np.array([3, 20, 0, 7, 7], np.int32)
    found = compute(gpu, LOWER, lambda ids: rows(table, ids), {"ids": ids}, capacity=8)
    np.testing.assert_array_equal(found, table.float32()[ids])


def test_small_scales_are_read_exactly(gpu: Gpu) -> None:
    """Subnormal halves, which drivers may flush."""
    table = weight("Q8_0", 64, 32)
    table.data.reshape(64, 34)[:, :2] = np.arange(0, 1024, 16).astype(np.uint16).view(np.uint8).reshape(64, 2)
    ids = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(compute(gpu, LOWER, lambda ids: rows(table, ids), {"ids": ids}), table.float32())


def test_a_table_in_several_bindings(gpu: Gpu) -> None:
    table = weight("Q4_K", 50, 512)
    ids = np.array([49, 0, 16, 15, 31, 32, -1, 50], np.int32)
    size = 2 * layouts.tile_bytes(table.type, 512)
    ran = run(gpu, LOWER, lambda ids: rows(table, ids), {"ids": ids}, max_binding=size)
    assert len(ran.dispatches) == 4
    np.testing.assert_array_equal(ran.output[:6], table.float32()[ids[:6]])
    assert np.isnan(ran.output[6:]).all()


# Experts


def chosen(columns: int, used: int, experts: int) -> NDArray[np.int32]:
    """Routes (columns, used, 2) to different experts of each column; weights do not matter here."""
    rng = np.random.default_rng(columns)
    each = [rng.permutation(experts)[:used] for _ in range(columns)]
    return np.stack([np.array(each, np.int32), np.zeros((columns, used), np.int32)], -1)


def mixture(gpu: Gpu, w: Tensor, x: Floats, routes: NDArray[np.int32], wanted: range | None, **how: Any) -> Floats:
    def build(x: Any, routes: Any) -> Any:
        return expert_linear(x, routes, w, wanted)

    return compute(gpu, LOWER, build, {"x": x, "routes": routes}, **how)


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K", "F16"])
@pytest.mark.parametrize(("columns", "inner"), [(1, 1), (3, 3), (21, 1), (21, 3)])
def test_experts_have_the_bits_of_their_products(
    gpu: Gpu, cpu: CpuBackend, kind: str, columns: int, inner: int
) -> None:
    """With 21 columns, each of seven experts has nine on average, more than `product_few` takes."""
    used, experts, width = 3, 7, width_of(kind, 1)
    w, routes = weight(kind, experts, 43, width), chosen(columns, used, experts)
    x = activations(columns, *((used,) if inner > 1 else ()), width)
    wanted = range(5, 30)
    found = mixture(gpu, w, x, routes, wanted)
    for column in range(columns):
        for slot in range(used):
            row = x[column, slot] if inner > 1 else x[column]
            alone = expected(cpu, w.matrix(int(routes[column, slot, 0])), row[None])[0]
            np.testing.assert_array_equal(found[column, slot], alone[wanted.start : wanted.stop])


def test_experts_of_a_pass_that_is_not_full(gpu: Gpu) -> None:
    w, routes, x = weight("Q4_0", 16, 24, 64), chosen(9, 2, 16), activations(9, 64)
    together = mixture(gpu, w, x, routes, None, capacity=9)
    for capacity in (12, 200):
        np.testing.assert_array_equal(mixture(gpu, w, x, routes, None, capacity=capacity), together)
    for column in range(9):
        alone = mixture(gpu, w, x[column : column + 1], routes[column : column + 1], None, capacity=2)
        np.testing.assert_array_equal(alone[0], together[column])


@pytest.mark.parametrize("max_tiles", [1000, 6])
def test_experts_in_several_bindings_and_experts_that_do_not_exist(gpu: Gpu, max_tiles: int) -> None:
    w, routes, x = weight("Q5_0", 5, 21, 64), chosen(4, 2, 5), activations(4, 64)
    whole = mixture(gpu, w, x, routes, None)
    routes[1, 1, 0], routes[3, 0, 0] = 5, -1
    size = max_tiles * layouts.tile_bytes(w.type, 64)
    found = mixture(gpu, w, x, routes, None, max_binding=size)
    missing = np.zeros((4, 2), bool)
    missing[1, 1] = missing[3, 0] = True
    assert np.isnan(found[missing]).all()
    np.testing.assert_array_equal(found[~missing], whole[~missing])


def test_one_expert_chosen_by_every_column(gpu: Gpu) -> None:
    w, x = weight("Q4_0", 300, 8, 64), activations(20, 64)
    routes = np.zeros((20, 1, 2), np.int32)
    routes[..., 0] = 299
    np.testing.assert_array_equal(mixture(gpu, w, x, routes, None)[:, 0], multiply(gpu, w.matrix(299), x))


# Layouts


def test_a_type_without_a_layout_is_left_to_the_twin(gpu: Gpu) -> None:
    with pytest.raises(AssertionError, match="was not lowered"):
        multiply(gpu, weight("MXFP4", 8, 64), activations(1, 64))


def test_rows_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="not 64 values of Q4_0"):
        layouts.lay(GgmlType.Q4_0, np.zeros((4, 35), np.uint8), 64)


@pytest.mark.parametrize("kind", TYPES)
def test_tiles_are_laid_alone_as_together(kind: str) -> None:
    w = weight(kind, 3, 21, width_of(kind, 1))
    every = range(layouts.tiles(w))
    assert len(every) == 9
    whole = np.concatenate(list(layouts.laid(w, every, w.type)))
    assert whole.nbytes == 9 * layouts.tile_bytes(w.type, w.shape[-1])
    parts = [np.concatenate(list(layouts.laid(w, range(at, min(at + 2, 9)), w.type))) for at in range(0, 9, 2)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
