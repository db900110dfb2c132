"""Every native kernel against its torch twin on random shapes, and the promise that a row's bits ignore its company.

Tolerances: kernels and twins round activations alike, so what differs is the order of float32 sums; it is bounded by a
few units in the last place of the largest partial sum, hence relative to the row's own magnitude.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.ops import Recording, Ref
from ops_checks import activations, agree, run, weight

pytestmark = pytest.mark.skipif(library.load() is None, reason="the native kernels were not built")

TYPES = [
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "IQ4_XS",
    "TQ1_0",
    "TQ2_0",
    "MXFP4",
    "Q1_0",
    "Q2_0",
    "PQ2_0",
    "PTQ1_0",
]


@pytest.fixture(scope="module")
def native() -> CpuBackend:
    return CpuBackend(threads=2)


@pytest.fixture(scope="module")
def twin() -> CpuBackend:
    return CpuBackend(threads=1, native=False)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("rows", [1, 2, 7, 33])
def test_linear(native: CpuBackend, twin: CpuBackend, kind: str, rows: int) -> None:
    matrix = weight(kind, 48, 512)
    # Types with a minimum multiply it by the block's activation sum, which ggml keeps in half precision; the twin does
    # not.
    units = 4096 if kind in ("Q4_1", "Q5_1") else 512
    agree(native, twin, lambda x: ops.linear(x, matrix), {"x": activations(rows, 512)}, units)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_many_rows_have_the_bits_of_few(native: CpuBackend, kind: str) -> None:
    """Blocks of rows, spans of inputs and tiles of outputs that threads share leave no trace."""
    matrix, bias = weight(kind, 200, 1100), weight("F32", 200, seed=1)
    x = activations(700, 1100)

    def build(x: Ref) -> Ref:
        return ops.linear(x, matrix, bias)

    together = run(native, build, {"x": x})
    for first, count in ((0, 1), (263, 3), (520, 60), (699, 1)):
        alone = run(native, build, {"x": x[first : first + count]})
        np.testing.assert_array_equal(alone, together[first : first + count])


def test_linear_with_bias_and_odd_rows(native: CpuBackend, twin: CpuBackend) -> None:
    matrix, bias = weight("Q8_0", 37, 96), weight("F16", 37, seed=3)
    agree(native, twin, lambda x: ops.linear(x, matrix, bias), {"x": activations(5, 96)}, units=128)


@pytest.mark.parametrize("kind", TYPES)
def test_rows(native: CpuBackend, twin: CpuBackend, kind: str) -> None:
    table = weight(kind, 20, 256)
    ids = np.array([3, 0, 19, 3], np.int32)
    agree(native, twin, lambda ids: ops.rows(table, ids), {"ids": ids}, units=1)


@pytest.mark.parametrize("heads", [1, 3])
def test_rms_norm(native: CpuBackend, twin: CpuBackend, heads: int) -> None:
    norm = weight("F32", 40)

    def build(x: Ref) -> Ref:
        return ops.rms_norm(x.reshape(heads, 40), norm, 1e-6)

    agree(native, twin, build, {"x": activations(6, heads * 40)}, units=4)


@pytest.mark.parametrize("style", list(ops.RopeStyle))
@pytest.mark.parametrize("yarn", [None, ops.Yarn(1.0, 1.0, 32.0, 1.0, 64)])
def test_rope(native: CpuBackend, twin: CpuBackend, style: ops.RopeStyle, yarn: ops.Yarn | None) -> None:
    factors = weight("F32", 8, seed=9)

    def build(x: Ref, positions: Ref) -> Ref:
        scale = 0.25 if yarn else 0.5
        angles = ops.rope_angles(positions, 16, base=10000.0, scale=scale, factors=factors, yarn=yarn)
        return ops.rope(x, angles, style)

    positions = np.array([0, 1, 17, 300, 4095], np.int32)
    # Angles of thousands of radians: an error of one unit in theta is an error of 2^-12 in its cosine.
    agree(native, twin, build, {"x": activations(5, 3, 20), "positions": positions}, units=4096)


def test_temperature(native: CpuBackend, twin: CpuBackend) -> None:
    def build(x: Ref, positions: Ref) -> Ref:
        return ops.temperature(x, positions, strength=0.1, period=300)

    positions = np.array([0, 299, 300, 899, 900, 131071, 2**31 - 1], np.int32)
    inputs = {"x": activations(7, 3, 21), "positions": positions}
    agree(native, twin, build, inputs, units=1)
    np.testing.assert_array_equal(run(native, build, inputs)[:2], inputs["x"][:2])


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_of_several_axes(native: CpuBackend, twin: CpuBackend, interleaved: bool) -> None:
    factors = weight("F32", 12, seed=9)

    def build(x: Ref, positions: Ref) -> Ref:
        sections = ops.Sections((3, 2, 4, 1), interleaved)
        angles = ops.rope_angles(positions, 24, base=1e4, scale=0.5, factors=factors, sections=sections)
        return ops.rope(x, angles, ops.RopeStyle.NEOX)

    positions = np.random.default_rng(3).integers(0, 500, (5, 4), dtype=np.int32)
    agree(native, twin, build, {"x": activations(5, 3, 40), "positions": positions}, units=1024)


def test_sections_that_do_not_fit_are_refused() -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    one, four = recording.input("one", axis), recording.input("four", axis, 4)
    sections = ops.Sections((3, 2, 4, 1), True)
    for sizes in [(0, 0, 0, 0), (3, 3, 4, 1), (5, 5, 5, -5)]:
        with pytest.raises(ValueError, match="for 10 pairs"):
            ops.rope_angles(four, 20, base=1e4, sections=ops.Sections(sizes, True))
    with pytest.raises(ValueError, match=r"shape \(\) for four axes"):
        ops.rope_angles(one, 20, base=1e4, sections=sections)
    with pytest.raises(ValueError, match=r"shape \(4,\) for one axis"):
        ops.rope_angles(four, 20, base=1e4)


def test_one_position_on_all_axes_is_plain_rotation(native: CpuBackend, twin: CpuBackend) -> None:
    positions = np.array([0, 3, 4000], np.int32)
    for backend in (native, twin):
        plain = run(backend, lambda at: ops.rope_angles(at, 64, base=1e7), {"at": positions})
        for sections in (ops.Sections((11, 11, 10, 0), True), ops.Sections((16, 8, 8, 0), False)):
            several = np.repeat(positions[:, None], 4, 1)
            found = run(backend, lambda at, s=sections: ops.rope_angles(at, 64, base=1e7, sections=s), {"at": several})
            np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize(("groups", "size"), [(4, 24), (1, 131), (3, 1)])
def test_l2_norm(native: CpuBackend, twin: CpuBackend, groups: int, size: int) -> None:
    agree(native, twin, lambda x: ops.l2_norm(x, groups, size, 1e-6), {"x": activations(5, 131)}, units=4)


@pytest.mark.parametrize(
    ("block", "width", "exchanged"),
    [
        (1, 3, (3, 1)),
        (8, 24, (1, 1)),
        (64, 192, (3, 2)),
        (128, 384, (2, 3)),
        (1024, 3072, (3, 4)),
        (4096, 4096, (1, 1)),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_hadamard(
    native: CpuBackend, twin: CpuBackend, block: int, width: int, exchanged: tuple[int, int], after: bool
) -> None:
    """The same sums and differences, so the same bits; twice it is what it was."""
    x, signs = {"x": activations(5, width)}, weight("F32", width, seed=2)
    signs.data.view(np.float32)[:] = np.sign(signs.float32())
    for factors in (signs, None):
        agree(native, twin, lambda x, f=factors: ops.hadamard(x, f, block, signs_after=after), x, units=0)
    agree(native, twin, lambda x: ops.hadamard(x, signs, block, signs_after=after, exchanged=exchanged), x, units=0)
    twice = run(native, lambda x: ops.hadamard(ops.hadamard(x, signs, block), signs, block, signs_after=True), x)
    np.testing.assert_allclose(twice, x["x"], atol=2e-6)


def test_hadamard_is_the_sylvester_matrix_of_exchanged_heads(native: CpuBackend) -> None:
    x, i = activations(3, 2 * 3 * 16), np.arange(32)
    matrix = (-1.0) ** np.bitwise_count(i[:, None] & i) / np.sqrt(32)
    heads = x.reshape(3, 2, 3, 16).swapaxes(1, 2).reshape(3, 3, 32)
    found = run(native, lambda x: ops.hadamard(x, None, 32, exchanged=(2, 3)), {"x": x})
    np.testing.assert_allclose(found, (heads @ matrix).reshape(3, -1), atol=1e-6)


@pytest.mark.parametrize(
    ("block", "exchanged", "message"),
    [(0, (1, 1), "blocks of 0"), (12, (1, 1), "blocks of 12"), (32, (1, 1), "blocks of 32"), (8, (3, 5), "3 times 5")],
)
def test_hadamard_of_impossible_blocks(
    native: CpuBackend, block: int, exchanged: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(native, lambda x: ops.hadamard(x, None, block, exchanged=exchanged), {"x": activations(1, 48)})
    with pytest.raises(ValueError, match="F32.weight has shape"):
        run(native, lambda x: ops.hadamard(x, weight("F32", 47), 8), {"x": activations(1, 48)})


def test_narrow(native: CpuBackend, twin: CpuBackend) -> None:
    x = activations(4, 3, 10)
    for first, size in [(0, 5), (5, 5), (9, 1)]:
        agree(native, twin, lambda x, f=first, s=size: ops.narrow(x, f, s), {"x": x}, units=0)
    with pytest.raises(ValueError, match="values 6 to 11 of a last axis of 10"):
        run(native, lambda x: ops.narrow(x, 6, 5), {"x": x})


def test_decay_and_sigmoid(native: CpuBackend, twin: CpuBackend) -> None:
    rate, bias = weight("F32", 33, seed=2), weight("F32", 33, seed=3)
    rate.data.view(np.float32)[:] = -np.abs(rate.float32())
    agree(native, twin, lambda x: ops.decay(x, rate, bias), {"x": 8 * activations(5, 33)}, units=16)
    agree(native, twin, ops.sigmoid, {"x": 8 * activations(5, 33)}, units=8)


@pytest.mark.parametrize("gate", [ops.swiglu, ops.geglu, ops.sigmoid_gate])
def test_gates(native: CpuBackend, twin: CpuBackend, gate: Callable[[Ref, Ref], Ref]) -> None:
    inputs = {"gate": 4 * activations(3, 100), "up": activations(3, 100, seed=2)}
    # A half-precision unit where the two tanh round to different halves.
    agree(native, twin, gate, inputs, units=2**14 if gate is ops.geglu else 8)


def test_sums_scales_caps_and_selection(native: CpuBackend, twin: CpuBackend) -> None:
    inputs = {"x": activations(4, 33), "y": activations(4, 33, seed=5)}
    agree(native, twin, lambda x, y: ops.softcap(ops.scale(ops.add(x, y), 3.5), 2.0), inputs, units=8)
    index = np.array([2, 0, 2], np.int32)

    def build(backend: CpuBackend) -> NDArray:
        recording = Recording()
        wide, narrow = recording.axis("wide", 8), recording.axis("narrow", 3)
        x, at = recording.input("x", wide, 33, dtype="f32"), recording.input("at", narrow)
        recording.output("out", ops.select(x, at))
        program = backend.compile(recording)
        program.inputs["x"][:4], program.inputs["at"][:] = inputs["x"], index
        program.run({"wide": 4, "narrow": 3})
        return program.output("out").copy()

    np.testing.assert_array_equal(build(native), inputs["x"][index])
    np.testing.assert_array_equal(build(twin), inputs["x"][index])


@pytest.mark.parametrize(("window", "cells", "softcap"), [(0, 160, 0.0), (20, 60, 0.0), (0, 160, 5.0)])
@pytest.mark.parametrize(
    ("type", "dims"), [(ops.CacheType.F16, (8, 12)), (ops.CacheType.F32, (8, 12)), (ops.CacheType.Q8_0, (32, 64))]
)
def test_attention(
    native: CpuBackend,
    twin: CpuBackend,
    window: int,
    cells: int,
    softcap: float,
    type: ops.CacheType,
    dims: tuple[int, int],
) -> None:
    """Two conversations of different lengths, read in one go and drawn further, in one cache."""
    rng = np.random.default_rng(4)
    lengths = [150, 9]
    slots = np.repeat(np.array([0, 2], np.int32), lengths)
    positions = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
    key_dim, value_dim = dims
    widths = (4 * key_dim, 2 * key_dim, 2 * value_dim)
    rows = [rng.standard_normal((len(slots), n), np.float32) for n in widths]

    def attend(backend: CpuBackend, order: list[NDArray[np.int64]]) -> NDArray:
        cache = backend.cache(slots=3, cells=cells, kv_heads=2, key_dim=key_dim, value_dim=value_dim, type=type)
        out = np.zeros((len(slots), 4, value_dim), np.float32)
        for chunk in order:
            recording = Recording()
            axis = recording.axis("rows", 256)
            q, k, v = (recording.input(n, axis, w, dtype="f32") for n, w in zip("qkv", widths, strict=True))
            s, p = recording.input("s", axis), recording.input("p", axis)
            ops.cache_store(cache, k, v, s, p)
            mixed = ops.attention(q.reshape(4, key_dim), cache, s, p, scale=0.3, window=window, softcap=softcap)
            recording.output("out", mixed)
            program = backend.compile(recording)
            for name, value in zip("qkvsp", (*rows, slots, positions), strict=True):
                program.inputs[name][: len(chunk)] = value[chunk]
            program.run({"rows": len(chunk)})
            out[chunk] = program.output("out")
        return out

    chunks = np.array_split(np.arange(len(slots)), 5)
    single = [np.array([i]) for i in range(len(slots))]
    mixed_up = [
        np.concatenate([c, 150 + d])
        for c, d in zip(np.array_split(np.arange(150), 9), np.arange(9)[:, None], strict=True)
    ]
    expected = attend(twin, chunks)
    together = attend(native, chunks)
    # A weight on a half-precision border may be rounded either way: a half unit of the largest weight.
    np.testing.assert_allclose(together, expected, rtol=0, atol=5e-4)
    np.testing.assert_array_equal(attend(native, single), together)
    np.testing.assert_array_equal(attend(native, mixed_up), together)


def test_a_torch_op_runs_between_native_stretches(native: CpuBackend) -> None:
    norm = weight("F32", 16)

    def build(x: Ref) -> Ref:
        h = ops.rms_norm(x, norm, 1e-6)
        h = ops.torch_op(lambda rows: rows.flip(-1), h, axis=h.axis, shape=(16,))
        return ops.scale(h, 2.0)

    x = activations(3, 16)
    plain = run(native, lambda x: ops.rms_norm(x, norm, 1e-6), {"x": x})
    np.testing.assert_array_equal(run(native, build, {"x": x}), 2 * plain[:, ::-1])


def test_rows_outside_the_recording_are_refused(native: CpuBackend) -> None:
    recording = Recording()
    axis = recording.axis("rows", 2)
    recording.output("out", ops.scale(recording.input("x", axis, 4, dtype="f32"), 1.0))
    program = native.compile(recording)
    with pytest.raises(ValueError, match="3 rows on axis 'rows', which was recorded for 2"):
        program.run({"rows": 3})


def test_an_id_outside_the_table_fails_the_pass(native: CpuBackend, twin: CpuBackend) -> None:
    table = weight("F32", 4, 8)
    for backend in (native, twin):
        with pytest.raises((library.KernelError, IndexError)):
            run(backend, lambda ids: ops.rows(table, ids), {"ids": np.array([4], np.int32)})


def test_names_are_readable_only_when_kept(native: CpuBackend) -> None:
    for keep in (True, False):
        recording = Recording(keep_names=keep)
        x = recording.input("x", recording.axis("rows", 1), 4, dtype="f32")
        h = ops.scale(x, 2.0).named("half")
        for _ in range(3):
            h = ops.scale(h, 2.0)
        recording.output("out", h)
        program = native.compile(recording)
        program.inputs["x"][:] = 1.0
        program.run({"rows": 1})
        assert program.output("out")[0, 0] == 16.0
        if keep:
            assert program.read("half")[0, 0] == 2.0
        else:
            with pytest.raises(ValueError, match="keep_names"):
                program.read("half")


@pytest.mark.parametrize(("width", "count"), [(1, 1), (513, 512), (600, 600), (1537, 1500)])
def test_the_largest_of_logits(native: CpuBackend, twin: CpuBackend, width: int, count: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.integers(-50, 50, (5, width)).astype(np.float32)
    x[1, :] = 3  # all equal
    x[2, count - 1] = np.nan
    x[3, 0] = -np.inf
    x[4, count:] = np.inf  # beyond what counts

    def maxima(x: Ref) -> Ref:
        return ops.block_maxima(x, count)

    def best(x: Ref) -> Ref:
        return ops.arg_largest(x, ops.block_maxima(x, count), count)

    for backend in (native, twin):
        assert run(backend, best, {"x": x})[:, 0].tolist() == [x[0, :count].argmax(), 0, -1, -1, x[4, :count].argmax()]
    np.testing.assert_array_equal(run(native, maxima, {"x": x}), run(twin, maxima, {"x": x}))
