"""Recurrent operations: kernels and twins agree, and a state can be copied, kept, put back and not be fed wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend, CpuState
from golem_host.kernels import library
from golem_host.ops import Recording, Ref
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

SLOTS, ROWS = 3, 40


@pytest.fixture(scope="module", params=[True, False], ids=["native", "twins"])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    if request.param and library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2, native=request.param)


def tensor(*shape: int, dtype: Any = np.float32) -> Tensor:
    values = np.random.default_rng(5).standard_normal(shape).astype(dtype)
    kind = GgmlType.F32 if dtype is np.float32 else GgmlType.F16
    return Tensor("conv.weight", shape, kind, Path("none.gguf"), (kind, values.view(np.uint8).reshape(-1)))


Build = Callable[[CpuBackend], tuple[CpuState, Callable[[dict[str, Ref], Ref, Ref], Ref]]]


def conv(taps: int, dtype: Any = np.float32) -> Build:
    def build(backend: CpuBackend) -> Any:
        weight, state = tensor(50, taps, dtype=dtype), backend.state(slots=SLOTS, shape=(taps - 1, 50))
        return state, lambda rows, slots, at: ops.causal_conv(rows["x"], weight, state, slots, at)

    return build


def delta(key_heads: int, heads: int, key_dim: int, value_dim: int) -> Build:
    def build(backend: CpuBackend) -> Any:
        state = backend.state(slots=SLOTS, shape=(heads, key_dim, value_dim))
        keys = 2 * key_heads * key_dim

        def record(rows: dict[str, Ref], slots: Ref, at: Ref) -> Ref:
            qkv = ops.l2_norm(ops.narrow(rows["wide"], 0, keys + heads * value_dim), 2 * key_heads, key_dim, 1e-6)
            kept, beta = (ops.sigmoid(ops.narrow(rows[name], 0, heads)) for name in ("decay", "beta"))
            return ops.gated_delta(qkv, kept, beta, state, slots, at, key_heads=key_heads)

        return state, record

    return build


BUILDS = [conv(2), conv(4), conv(4, np.float16), conv(7), delta(2, 4, 8, 12), delta(1, 3, 17, 35), delta(1, 1, 64, 64)]
WIDTHS = {"x": 50, "wide": 192, "decay": 4, "beta": 4}


class Layer:
    """One operation with its state, fed rows of random inputs."""

    def __init__(self, backend: CpuBackend, build: Build) -> None:
        self.state, record = build(backend)
        recording = Recording()
        axis = recording.axis("rows", ROWS)
        rows = {name: recording.input(name, axis, width, dtype="f32") for name, width in WIDTHS.items()}
        slots, positions = recording.input("slots", axis), recording.input("positions", axis)
        recording.output("out", record(rows, slots, positions))
        self.program = backend.compile(recording)
        rng = np.random.default_rng(11)
        self.inputs = {name: rng.standard_normal((ROWS, width), np.float32) for name, width in WIDTHS.items()}

    def feed(self, slots: Sequence[int] | int, positions: Sequence[int]) -> NDArray[np.float32]:
        """Rows of these slots; a row's inputs are those of its position, whatever its slot."""
        at = np.asarray(positions)
        for name, values in self.inputs.items():
            self.program.inputs[name][: len(at)] = values[np.clip(at, 0, ROWS - 1)]
        self.program.inputs["slots"][: len(at)] = slots
        self.program.inputs["positions"][: len(at)] = at
        self.program.run({"rows": len(at)})
        return self.program.output("out").copy()


@pytest.mark.skipif(library.load() is None, reason="the native kernels were not built")
@pytest.mark.parametrize("build", BUILDS)
def test_kernels_agree_with_twins(build: Build) -> None:
    """float32 sums of dozens of values in another order, carried through forty rows."""
    native, twin = (Layer(CpuBackend(threads=2, native=native), build) for native in (True, False))
    expected = twin.feed(0, range(ROWS))
    np.testing.assert_allclose(native.feed(0, range(ROWS)), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(native.state.values[0], twin.state.values[0], rtol=0, atol=1e-5)
    assert native.state.taken.tolist() == twin.state.taken.tolist() == [ROWS, 0, 0]


@pytest.mark.parametrize("build", BUILDS)
def test_chunks_draws_and_company_do_not_change_bits(backend: CpuBackend, build: Build) -> None:
    expected = Layer(backend, build).feed(0, range(ROWS))
    layer = Layer(backend, build)
    out = [layer.feed(1, range(7)), layer.feed(1, [7])]
    layer.feed(0, range(3))
    mixed = layer.feed([1, 0, 2, 1, 2, 1], [8, 3, 0, 9, 1, 10])
    out += [mixed[[0, 3, 5]], layer.feed(1, range(11, ROWS))]
    np.testing.assert_array_equal(np.concatenate(out), expected)
    np.testing.assert_array_equal(mixed[[2, 4]], expected[:2])
    np.testing.assert_array_equal(mixed[1], expected[3])


@pytest.mark.parametrize("build", BUILDS)
def test_copies_and_checkpoints_go_on_as_the_original(backend: CpuBackend, build: Build) -> None:
    layer = Layer(backend, build)
    expected = layer.feed(0, range(ROWS))
    layer.feed(0, range(9))
    checkpoint = layer.state.save(0)
    assert checkpoint.position == 9
    layer.state.copy_slot(0, 2)
    layer.feed(0, range(9, 20))
    np.testing.assert_array_equal(layer.feed(2, range(9, ROWS)), expected[9:])
    layer.state.restore(1, checkpoint)
    np.testing.assert_array_equal(layer.feed(1, range(9, ROWS)), expected[9:])
    layer.state.restore(1, checkpoint)
    np.testing.assert_array_equal(layer.feed(1, range(9, ROWS)), expected[9:])
    np.testing.assert_array_equal(layer.feed(1, range(ROWS)), expected)


@pytest.mark.parametrize("build", [conv(4), delta(2, 4, 8, 12)])
def test_rows_that_do_not_follow_fail_the_pass_and_change_nothing(backend: CpuBackend, build: Build) -> None:
    layer = Layer(backend, build)
    expected = layer.feed(0, range(6))
    layer.feed(0, range(4))
    before = layer.state.values.copy()
    bad = [(0, [3]), (0, [5]), (0, [-1]), (1, [1]), (SLOTS, [0]), (-1, [0]), (0, [4, 4]), (0, [4, 6]), ([1, 0], [0, 3])]
    for slots, positions in bad:
        with pytest.raises((library.KernelError, IndexError)):
            layer.feed(slots, positions)
        assert layer.state.taken.tolist() == [4, 0, 0]
        np.testing.assert_array_equal(layer.state.values, before)
    np.testing.assert_array_equal(layer.feed(0, [4, 5]), expected[4:])


def test_a_checkpoint_of_another_layer_is_refused(backend: CpuBackend) -> None:
    one, other = backend.state(slots=2, shape=(3, 8)), backend.state(slots=2, shape=(3, 9))
    with pytest.raises(ValueError, match=r"shape \(3, 8\) for a state of shape \(3, 9\)"):
        other.restore(0, one.save(1))


def test_shapes_that_do_not_fit_are_refused(backend: CpuBackend) -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    x, heads = recording.input("x", axis, 50, dtype="f32"), recording.input("heads", axis, 2, dtype="f32")
    slots, at = recording.input("slots", axis), recording.input("at", axis)

    def state(*shape: int) -> CpuState:
        return backend.state(slots=1, shape=shape)

    with pytest.raises(ValueError, match="has 1 taps"):
        ops.causal_conv(x, tensor(50, 1), state(0, 50), slots, at)
    with pytest.raises(ValueError, match="has 17 taps"):
        ops.causal_conv(x, tensor(50, 17), state(16, 50), slots, at)
    with pytest.raises(ValueError, match=r"shape \(49, 4\) does not take rows of shape \(50,\)"):
        ops.causal_conv(x, tensor(49, 4), state(3, 49), slots, at)
    with pytest.raises(ValueError, match=r"a state of shape \(4, 50\)"):
        ops.causal_conv(x, tensor(50, 4), state(4, 50), slots, at)
    with pytest.raises(ValueError, match="do not divide into 4"):
        ops.gated_delta(x, heads, heads, state(2, 5, 5), slots, at, key_heads=4)
    with pytest.raises(ValueError, match="wants rows of 20 values"):
        ops.gated_delta(x, heads, heads, state(2, 5, 5), slots, at, key_heads=1)
    with pytest.raises(ValueError, match="at most 256"):
        ops.gated_delta(x, heads, heads, state(2, 257, 5), slots, at, key_heads=1)
    with pytest.raises(ValueError, match=r"the rows have shape \(2,\)"):
        ops.decay(heads, tensor(3), tensor(3))
    with pytest.raises(ValueError, match="2 groups of 26 values"):
        ops.l2_norm(x, 2, 26, 1e-6)
    with pytest.raises(ValueError, match="a gate of 2 values for rows of 50"):
        ops.sigmoid_gate(heads, x)
