"""Recurrent operations on a Vulkan device against their torch twins, and that cuts and company do not change bits."""

from __future__ import annotations

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from recurrent_checks import BUILDS, ROWS, SLOTS, Build, Layer, conv, delta


@pytest.mark.parametrize("build", BUILDS)
def test_shaders_agree_with_twins(vulkan: VulkanBackend, twin: CpuBackend, build: Build) -> None:
    """float32 sums of dozens of values in another order, carried through forty rows."""
    device, reference = Layer(vulkan, build), Layer(twin, build)
    expected = reference.feed(0, range(ROWS))
    np.testing.assert_allclose(device.feed(0, range(ROWS)), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(device.state.read(0), reference.state.values[0], rtol=0, atol=1e-5)
    assert device.state.taken.tolist() == [ROWS, 0, 0]


@pytest.mark.parametrize("build", BUILDS)
def test_chunks_draws_and_company_do_not_change_bits(vulkan: VulkanBackend, build: Build) -> None:
    expected = Layer(vulkan, build).feed(0, range(ROWS))
    layer, single = Layer(vulkan, build), Layer(vulkan, build, width=1)
    out = [layer.feed(1, range(7)), layer.feed(1, [7])]
    layer.feed(0, range(3))
    mixed = layer.feed([1, 0, 2, 1, 2, 1], [8, 3, 0, 9, 1, 10])
    out += [mixed[[0, 3, 5]], layer.feed(1, range(11, ROWS))]
    np.testing.assert_array_equal(np.concatenate(out), expected)
    np.testing.assert_array_equal(mixed[[2, 4]], expected[:2])
    np.testing.assert_array_equal(mixed[1], expected[3])
    drawn = [single.feed(2, [at]) for at in range(ROWS)]
    np.testing.assert_array_equal(np.concatenate(drawn), expected)
    np.testing.assert_array_equal(single.state.read(2), layer.state.read(1))


@pytest.mark.parametrize("build", BUILDS[1::2])
def test_copies_and_checkpoints_go_on_as_the_original(vulkan: VulkanBackend, build: Build) -> None:
    layer = Layer(vulkan, build)
    expected = layer.feed(0, range(ROWS))
    layer.feed(0, range(9))
    checkpoint = layer.state.save(0)
    layer.state.copy_slot(0, 2)
    layer.feed(0, range(9, 20))
    np.testing.assert_array_equal(layer.feed(2, range(9, ROWS)), expected[9:])
    layer.state.restore(1, checkpoint)
    np.testing.assert_array_equal(layer.feed(1, range(9, ROWS)), expected[9:])
    np.testing.assert_array_equal(layer.feed(1, range(ROWS)), expected)


@pytest.mark.parametrize("build", [conv(4), delta(2, 4, 8, 12)])
def test_rows_that_do_not_follow_fail_the_pass_and_change_nothing(vulkan: VulkanBackend, build: Build) -> None:
    layer = Layer(vulkan, build)
    expected = layer.feed(0, range(6))
    layer.feed(0, range(4))
    before = [layer.state.read(slot) for slot in range(SLOTS)]
    bad = [(0, [3]), (0, [5]), (0, [-1]), (1, [1]), (SLOTS, [0]), (-1, [0]), (0, [4, 4]), (0, [4, 6]), ([1, 0], [0, 3])]
    for slots, positions in bad:
        with pytest.raises(IndexError):
            layer.feed(slots, positions)
        assert layer.state.taken.tolist() == [4, 0, 0]
        np.testing.assert_array_equal([layer.state.read(slot) for slot in range(SLOTS)], before)
    np.testing.assert_array_equal(layer.feed(0, [4, 5]), expected[4:])
