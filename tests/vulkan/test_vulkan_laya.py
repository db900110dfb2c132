"""A whole laya checkpoint on the device, against the CPU's kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.testing.tiny_laya import tiny_laya_directory
from golem_host_laya.checkpoint import open_checkpoint
from golem_host_laya.passes import Passes
from golem_host_laya.questions import Kind
from golem_host_laya.sequences import Row

LENGTHS = (6, 11, 48, 97, 130)


def rows() -> list[Row]:
    rng = np.random.default_rng(5)
    return [
        Row(rng.integers(5, 261, n).tolist(), [1, *(rng.choice(n - 2, 3, replace=False) + 2).tolist()], 0, 4, None)
        for n in LENGTHS
    ]


def found(folder: Path, backend: Any, given: list[Row]) -> list[Any]:
    with open_checkpoint(folder) as checkpoint:
        passes = Passes(checkpoint, backend, widths=(512,))
        passes.prepare(lambda _: None)
        return passes.run(given, [Kind(at % 3) for at in range(len(given))])


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_logits_are_the_cpus(vulkan: VulkanBackend, tmp_path: Path, dtype: str) -> None:
    """No product as a twin, whatever the weights' type; alone as together."""
    folder = tiny_laya_directory(tmp_path / "tiny", dtype=dtype)
    together = found(folder, vulkan, rows())
    for ours, cpus in zip(together, found(folder, CpuBackend(threads=2), rows()), strict=True):
        np.testing.assert_allclose(ours.logits, cpus.logits, rtol=0, atol=1e-4)  # float32 sums in another order
        assert abs(ours.act - cpus.act) < 1e-4
    (alone,) = found(folder, vulkan, rows()[:1])
    assert alone.logits.tobytes() == together[0].logits.tobytes() and alone.act == together[0].act
