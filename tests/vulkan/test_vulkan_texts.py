"""Operations on packed texts against their torch twins; a text alone equals the text in company to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.ops import Recording
from ops_checks import activations, run


@pytest.mark.parametrize(("lengths", "dim"), [([1], 32), ([3, 1, 40], 7), ([131, 5, 17], 64), ([300, 1, 2], 2)])
def test_attention(vulkan: VulkanBackend, twin: CpuBackend, lengths: Sequence[int], dim: int) -> None:
    rows = sum(lengths)
    inputs: dict[str, NDArray[Any]] = {name: activations(rows, 3, dim, seed=at) for at, name in enumerate("qkv")}
    inputs["texts"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)

    def build(q: ops.Ref, k: ops.Ref, v: ops.Ref, texts: ops.Ref) -> ops.Ref:
        return ops.text_attention(q, k, v, texts, scale=dim**-0.5)

    together = run(vulkan, build, inputs)
    np.testing.assert_allclose(together, run(twin, build, inputs), rtol=0, atol=2e-6)
    for text in range(len(lengths)):
        own = inputs["texts"] == text
        alone = run(vulkan, build, {name: value[own] for name, value in inputs.items()}, capacity=304)
        np.testing.assert_array_equal(alone, together[own])


@pytest.mark.parametrize(("lengths", "window"), [([1, 2], 1), ([131, 5, 17], 4), ([300, 1, 2], 64), ([70], 100)])
def test_attention_in_a_window(vulkan: VulkanBackend, twin: CpuBackend, lengths: Sequence[int], window: int) -> None:
    inputs: dict[str, NDArray[Any]] = {name: activations(sum(lengths), 2, 16, seed=at) for at, name in enumerate("qkv")}
    inputs["texts"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)

    def build(q: ops.Ref, k: ops.Ref, v: ops.Ref, texts: ops.Ref) -> ops.Ref:
        return ops.text_attention(q, k, v, texts, scale=0.25, window=window)

    together = run(vulkan, build, inputs)
    np.testing.assert_allclose(together, run(twin, build, inputs), rtol=0, atol=2e-6)
    for text in range(len(lengths)):
        own = inputs["texts"] == text
        alone = run(vulkan, build, {name: value[own] for name, value in inputs.items()}, capacity=304)
        np.testing.assert_array_equal(alone, together[own])


def test_a_text_that_is_no_number_leaves_its_neighbours_alone(vulkan: VulkanBackend) -> None:
    inputs: dict[str, NDArray[Any]] = {name: activations(50, 2, 8, seed=at) for at, name in enumerate("qkv")}
    inputs["texts"] = np.repeat(np.array([7, 2, 7], np.int32), (20, 11, 19))

    def build(q: ops.Ref, k: ops.Ref, v: ops.Ref, texts: ops.Ref) -> ops.Ref:
        return ops.text_attention(q, k, v, texts, scale=0.5)

    sound = run(vulkan, build, inputs)
    inputs["k"][25], inputs["v"][26] = np.nan, np.inf
    found = run(vulkan, build, inputs)
    np.testing.assert_array_equal(found[:20], sound[:20])
    np.testing.assert_array_equal(found[31:], sound[31:])
    assert np.isnan(found[20:31]).any()


def test_means(vulkan: VulkanBackend, twin: CpuBackend) -> None:
    x = activations(30, 150)
    programs = []
    for backend in (vulkan, twin):
        recording = Recording()
        rows, texts = recording.axis("rows", 64), recording.axis("texts", 8)
        source = recording.input("x", rows, 150, dtype="f32")
        first, count = recording.input("first", texts), recording.input("count", texts)
        recording.output("out", ops.mean(source, first, count))
        programs.append(backend.compile(recording))
    found = []
    for program in programs:
        program.inputs["x"][:30] = x
        program.inputs["first"][:3], program.inputs["count"][:3] = [0, 4, 29], [30, 7, 1]
        program.run({"rows": 30, "texts": 3})
        found.append(program.output("out").copy())
        for first, count in [(-1, 2), (0, 0), (0, 31), (29, 2), (2**31 - 1, 2**31 - 1)]:
            program.inputs["first"][1], program.inputs["count"][1] = first, count
            with pytest.raises(IndexError, match="the mean of rows"):
                program.run({"rows": 30, "texts": 3})
    np.testing.assert_array_equal(found[0], found[1])
