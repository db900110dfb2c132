"""Recurrent operations: kernels and twins agree, and a state can be copied, kept, put back and not be fed wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from golem_host import ops
from golem_host.devices.cpu import CpuBackend, CpuState
from golem_host.kernels import library
from golem_host.ops import Recording
from recurrent_checks import BUILDS, ROWS, SLOTS, Build, Layer, conv, delta, tensor


@pytest.fixture(scope="module", params=[True, False], ids=["native", "twins"])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    if request.param and library.load() is None:
        pytest.skip("the native kernels were not built")
    return CpuBackend(threads=2, native=request.param)


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
