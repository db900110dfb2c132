"""Shaders that work on rows, over odd sizes, and rows alone against rows together.

What the dense families of chat are made of gives the bits of the CPU's kernels (`units=0`). The rest is compared with
the torch twins, tolerances in float32 epsilons of a row's largest value.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.lower import TABLE, lower
from golem_host.devices.vulkan.weights import wanted_by
from golem_host.ops import Op, Recording, Ref, Weighting
from golem_host.ops.elementwise import AddRow, MultiplyRow
from golem_host.ops.full_attention import FullAttention
from golem_host.ops.gate import Activation, FloatGelu, Gate
from golem_host.ops.image import Conv2d
from golem_host.ops.recording import TorchOp
from golem_host.ops.rope import RopeAngles
from golem_host.ops.windows import CausalWindows
from ops_checks import activations, agree, run, weight


@pytest.mark.parametrize(("heads", "n"), [(1, 40), (3, 40), (1, 1), (5, 128), (2, 1025)])
@pytest.mark.parametrize("kind", ["F32", "BF16", None])
def test_rms_norm(vulkan: VulkanBackend, cpu: CpuBackend, heads: int, n: int, kind: str | None) -> None:
    norm = None if kind is None else weight(kind, n)

    def build(x: Ref) -> Ref:
        return ops.rms_norm(x.reshape(heads, n), norm, 1e-6)

    for scale in (1e-3, 1, 50):
        agree(vulkan, cpu, build, {"x": np.float32(scale) * activations(6, heads * n)}, units=0)


@pytest.mark.parametrize("width", [1, 31, 384, 1025])
def test_layer_norm(vulkan: VulkanBackend, cpu: CpuBackend, width: int) -> None:
    gain, bias = weight("F32", width, seed=1), weight("F32", width, seed=2)
    x = activations(5, width)
    agree(vulkan, cpu, lambda x: ops.layer_norm(x, gain, bias, 1e-5), {"x": x}, units=0)
    agree(vulkan, cpu, lambda x: ops.layer_norm(x, gain, None, 1e-5), {"x": x}, units=0)
    agree(vulkan, cpu, lambda x: ops.layer_norm(x, gain, bias, 1e-5), {"x": x + 30}, units=0)


@pytest.mark.parametrize(("groups", "size"), [(4, 24), (1, 131), (3, 1)])
def test_l2_norm(vulkan: VulkanBackend, cpu: CpuBackend, groups: int, size: int) -> None:
    agree(vulkan, cpu, lambda x: ops.l2_norm(x, groups, size, 1e-6), {"x": activations(5, 131)}, units=0)


@pytest.mark.parametrize(("block", "width", "exchanged"), [(1, 3, (3, 1)), (64, 384, (2, 3)), (4096, 8192, (1, 2))])
def test_hadamard(vulkan: VulkanBackend, twin: CpuBackend, block: int, width: int, exchanged: tuple[int, int]) -> None:
    x, signs = {"x": activations(5, width)}, weight("F32", width, seed=2)
    signs.data.view(np.float32)[:] = np.sign(signs.float32())
    agree(vulkan, twin, lambda x: ops.hadamard(x, None, block, exchanged=exchanged), x, units=0)
    for after in (False, True):
        agree(vulkan, twin, lambda x, a=after: ops.hadamard(x, signs, block, signs_after=a), x, units=0)


WITHOUT_SHADERS = (AddRow, MultiplyRow, CausalWindows, Conv2d, FloatGelu, FullAttention)
"""Those of speech to text and of pictures, as the ELU gate is: these plugins refuse Vulkan devices so far."""


def test_every_operation_has_a_shader() -> None:
    modules = [importlib.import_module(each.name) for each in pkgutil.iter_modules(ops.__path__, "golem_host.ops.")]
    operations = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and hasattr(each, "twin") and each is not Op
    }
    assert operations - set(TABLE) == {TorchOp, RopeAngles, *WITHOUT_SHADERS}, "angles are made by the host"


@pytest.mark.parametrize("activation", [each for each in Activation if each is not Activation.ELU])
def test_gates(vulkan: VulkanBackend, cpu: CpuBackend, activation: Activation) -> None:
    def build(gate: Ref, up: Ref) -> Ref:
        return gate.recording.append(Gate(activation), (gate, up), gate.axis, gate.shape, in_place=(0, 1))

    for scale in (0.1, 4, 30):
        inputs = {"gate": np.float32(scale) * activations(3, 3000), "up": activations(3, 3000, seed=2)}
        agree(vulkan, cpu, build, inputs, units=0)


def test_every_half_has_the_gelu_of_the_cpus_table(vulkan: VulkanBackend, cpu: CpuBackend) -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32).reshape(64, -1)
    halves[~np.isfinite(halves)] = 0
    agree(vulkan, cpu, ops.gelu_tanh, {"x": halves}, units=0)


@pytest.mark.parametrize("gate", [ops.swiglu, ops.geglu, ops.sigmoid_gate])
def test_gates_far_from_zero(vulkan: VulkanBackend, cpu: CpuBackend, gate: Callable[[Ref, Ref], Ref]) -> None:
    x = np.array([[-1e30, -1000, -100, -88, -20, -10, -9.9, -1e-3, -0.0, 0, 1e-30, 1e-3, 9.9, 10, 50, 1e4]], np.float32)
    found, expected = (run(each, gate, {"gate": x, "up": np.ones_like(x)}) for each in (vulkan, cpu))
    # A device may take denormal numbers, as sigmoid gives them below -87, for zero.
    expected[np.abs(expected) < np.finfo(np.float32).tiny] = 0
    found[np.abs(found) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(found, expected)


def test_decay(vulkan: VulkanBackend, twin: CpuBackend) -> None:
    rate, bias = weight("F32", 33, seed=2), weight("F32", 33, seed=3)
    rate.data.view(np.float32)[:] = -np.abs(rate.float32())
    agree(vulkan, twin, lambda x: ops.decay(x, rate, bias), {"x": 8 * activations(5, 33)}, units=16)


def test_sums_scales_and_caps(vulkan: VulkanBackend, cpu: CpuBackend) -> None:
    inputs = {"x": activations(4, 333), "y": activations(4, 333, seed=5)}
    agree(vulkan, cpu, lambda x, y: ops.add(x, ops.scale(y, 3.5)), inputs, units=0)
    agree(vulkan, cpu, lambda x, y: ops.softcap(ops.add(x, y), 3.0), inputs, units=0)


def test_narrow(vulkan: VulkanBackend, twin: CpuBackend) -> None:
    for first, size in [(0, 5), (5, 5), (9, 1)]:
        agree(vulkan, twin, lambda x, f=first, s=size: ops.narrow(x, f, s), {"x": activations(4, 3, 10)}, units=0)


def test_select_takes_rows_of_another_axis(vulkan: VulkanBackend) -> None:
    recording = Recording()
    wide, narrow = recording.axis("wide", 8), recording.axis("narrow", 3)
    x, at = recording.input("x", wide, 33, dtype="f32"), recording.input("at", narrow)
    recording.output("out", ops.select(x, at))
    program = vulkan.compile(recording)
    rows, index = activations(4, 33), np.array([2, 0, 2], np.int32)
    program.inputs["x"][:4], program.inputs["at"][:] = rows, index
    program.run({"wide": 4, "narrow": 3})
    np.testing.assert_array_equal(program.output("out"), rows[index])
    program.inputs["at"][1] = 4
    with pytest.raises(IndexError, match="2..4"):
        program.run({"wide": 4, "narrow": 3})
    program.run({"wide": 5, "narrow": 3})


def test_int32_rows_are_selected_bit_by_bit(vulkan: VulkanBackend) -> None:
    """Small integers would be denormal floats."""
    ids = np.array([3, 0, 2**31 - 1, -5], np.int32)
    recording = Recording()
    wide, narrow = recording.axis("wide", 4), recording.axis("narrow", 3)
    x, at = recording.input("x", wide), recording.input("at", narrow)
    recording.output("out", ops.select(x, at))
    program = vulkan.compile(recording)
    program.inputs["x"][:], program.inputs["at"][:] = ids, [2, 0, 3]
    program.run({"wide": 4, "narrow": 3})
    np.testing.assert_array_equal(program.output("out"), ids[[2, 0, 3]])


@pytest.mark.parametrize("kind", ["F32", "Q5_K", "Q8_0"])
def test_a_table_that_stays_in_the_file_is_read_by_rows(vulkan: VulkanBackend, kind: str) -> None:
    table = weight(kind, 9, 256)
    recording = Recording()
    axis = recording.axis("rows", 4)
    ids = recording.input("ids", axis)
    recording.output("out", ops.scale(ops.rows(table, ids, in_file=True), 2.0))
    assert not [each for each in wanted_by(lower(vulkan.gpu, recording).dispatches) if each.tensor is table]
    program = vulkan.compile(recording)
    for found in ([8, 0, 8, 3], [5], []):
        program.inputs["ids"][: len(found)] = found
        program.run({"rows": len(found)})
        np.testing.assert_array_equal(program.output("out"), 2 * table.float32()[found])
    program.inputs["ids"][0] = 9
    with pytest.raises(IndexError, match="9"):
        program.run({"rows": 1})


@pytest.mark.parametrize("weighting", Weighting)
@pytest.mark.parametrize(("experts", "used"), [(300, 8), (8, 2), (5, 5), (1, 1)])
def test_routes(vulkan: VulkanBackend, twin: CpuBackend, weighting: Weighting, experts: int, used: int) -> None:
    logits = np.round(2 * activations(20, experts), 1)  # coarse: many are equal, and there is a -0
    logits[3, experts // 2] = np.nan
    scale = weight("F32", experts)

    def build(x: Ref, y: Ref) -> tuple[Ref, Ref]:
        routes = ops.route(x, used, weighting, factor=1.5, scale=scale)
        return routes, ops.mix(y.reshape(used, 7), routes)

    inputs = {"x": logits, "y": activations(20, used * 7, seed=4)}
    found, expected = (run(each, lambda x, y: build(x, y)[0], inputs) for each in (vulkan, twin))
    np.testing.assert_array_equal(found[..., 0], expected[..., 0])
    weights = [each[..., 1].copy().view(np.float32) for each in (found, expected)]
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
    mixed = run(vulkan, lambda x, y: build(x, y)[1], inputs)
    exact = np.einsum("ru,run->rn", weights[0].astype(np.float64), inputs["y"].reshape(20, used, 7))
    np.testing.assert_allclose(mixed, exact, rtol=0, atol=1e-6 * np.nanmax(np.abs(weights[0])) * used)


ROPES = [
    dict[str, object](base=1e4),
    dict[str, object](base=1e6, scale=0.25),
    dict[str, object](base=1e4, scale=0.25, yarn=ops.Yarn(1.0, 1.0, 32.0, 1.0, 64)),
    dict[str, object](base=5e5, scale=1 / 3, yarn=ops.Yarn(0.7, 1.2, 16.0, 2.0, 100)),
]


@pytest.mark.parametrize("style", list(ops.RopeStyle))
@pytest.mark.parametrize("kind", ROPES)
@pytest.mark.parametrize("with_factors", [False, True])
def test_rope(
    vulkan: VulkanBackend, cpu: CpuBackend, style: ops.RopeStyle, kind: dict[str, object], with_factors: bool
) -> None:
    factors = None if not with_factors else weight("F32", 20, seed=9)
    if factors is not None:
        factors.data.view(np.float32)[:] = 1 + np.abs(factors.float32())

    def build(x: Ref, positions: Ref) -> Ref:
        return ops.rope(x, ops.rope_angles(positions, 40, factors=factors, **kind), style)  # pyright: ignore[reportArgumentType]

    positions = np.array([0, 1, 17, 300, 4095, 131071, 1000003, 16777215], np.int32)
    agree(vulkan, cpu, build, {"x": activations(8, 3, 50), "positions": positions}, units=0)


def test_temperature(vulkan: VulkanBackend, twin: CpuBackend) -> None:
    def build(x: Ref, positions: Ref) -> Ref:
        return ops.temperature(x, positions, strength=0.7, period=3)

    spread = [0, 2, 3, 8, 9, *(2 ** np.arange(5, 31)), 2**31 - 1]
    inputs = {"x": activations(len(spread), 3, 21), "positions": np.array(spread, np.int32)}
    agree(vulkan, twin, build, inputs, units=2)
    np.testing.assert_array_equal(run(vulkan, build, inputs)[:2], inputs["x"][:2])
    inputs["positions"][4] = -1
    with pytest.raises(IndexError):
        run(vulkan, build, inputs)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_of_several_axes(vulkan: VulkanBackend, cpu: CpuBackend, interleaved: bool) -> None:
    factors = weight("F32", 12, seed=9)

    def build(x: Ref, positions: Ref) -> Ref:
        sections = ops.Sections((3, 2, 4, 1), interleaved)
        angles = ops.rope_angles(positions, 24, base=1e4, scale=0.5, factors=factors, sections=sections)
        return ops.rope(x, angles, ops.RopeStyle.NEOX)

    positions = np.random.default_rng(3).integers(0, 500, (5, 4), dtype=np.int32)
    agree(vulkan, cpu, build, {"x": activations(5, 3, 40), "positions": positions}, units=0)


def test_the_angle_of_any_position(vulkan: VulkanBackend, cpu: CpuBackend) -> None:
    rng = np.random.default_rng(6)
    spread = [np.arange(300), [255, 256, 511, 512], 2 ** np.arange(31), rng.integers(0, 2**31, 40), [2**31 - 1]]
    inputs = {"at": np.concatenate(spread).astype(np.int32)}
    agree(vulkan, cpu, lambda at: ops.rope_angles(at, 6, base=1e4), inputs, units=0)


def test_a_bad_value_stays_in_its_row(vulkan: VulkanBackend) -> None:
    norm = weight("F32", 40)

    def build(x: Ref, y: Ref) -> Ref:
        return ops.softcap(ops.add(ops.swiglu(ops.rms_norm(x, norm, 1e-6), y), y), 30.0)

    inputs = {"x": activations(4, 40), "y": activations(4, 40, seed=2)}
    sound = run(vulkan, build, inputs)
    inputs["x"][1, 7], inputs["y"][2, 3] = np.nan, np.inf
    found: NDArray[np.float32] = run(vulkan, build, inputs)
    np.testing.assert_array_equal(found[[0, 3]], sound[[0, 3]])
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize(("width", "count"), [(1, 1), (512, 512), (700, 513), (3000, 2990)])
def test_the_largest(vulkan: VulkanBackend, twin: CpuBackend, width: int, count: int) -> None:
    x = activations(9, width)
    x[1] = 0
    x[2] = -np.abs(x[2])
    x[3, count // 2] = x[3, count - 1] = 50
    x[4, count - 1] = np.nan
    x[5, 0] = np.inf
    x[6, count // 3] = -np.inf
    x[7, count:] = np.nan
    x[8] = np.where(np.arange(width) % 2, 0, -0.0)

    def maxima(x: Ref) -> Ref:
        return ops.block_maxima(x, count)

    found, expected = (run(each, maxima, {"x": x}) for each in (vulkan, twin))
    np.testing.assert_array_equal(found, expected)
    found, expected = (run(each, lambda x: ops.arg_largest(x, maxima(x), count), {"x": x}) for each in (vulkan, twin))
    np.testing.assert_array_equal(found, expected)
    assert expected[3:7, 0].tolist() == [count // 2, -1, -1, -1]
