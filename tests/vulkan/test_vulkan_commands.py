"""Passes: dispatches, copies, barriers, replay."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.memory import View

AXPY = Path(__file__).parent / "shaders" / "axpy.spv"


def _vectors(gpu: Gpu, n: int) -> tuple[View, View, np.ndarray, np.ndarray]:
    arena = gpu.arena()
    x, y = arena.take(4 * n), arena.take(4 * n)
    numbers = np.random.default_rng(n)
    xs, ys = (numbers.integers(-50, 50, n).astype(np.float32) for _ in range(2))
    gpu.upload(x, xs)
    gpu.upload(y, ys)
    return x, y, xs, ys


@pytest.mark.parametrize("constants", [(64, 2.5, False), (1, -3, True), (128, 0.5, 0)])
def test_a_dispatch_takes_constants_push_and_grid(gpu: Gpu, constants: tuple[int, float, bool]) -> None:
    x, y, xs, ys = _vectors(gpu, 333)
    local, a, negate = constants
    with Pass(gpu) as made:
        made.dispatch(gpu.kernel(AXPY, constants), [x, y], struct.pack("If", 332, 0.25), (-(-333 // local), 1, 1))
        made.end()
        gpu.wait(made.submit())
    ys[:332] += (-a if negate else a) * xs[:332] + np.float32(0.25)
    np.testing.assert_array_equal(gpu.download(y).view(np.float32), ys)


def test_a_replay_sees_what_changed(gpu: Gpu) -> None:
    x, y, xs, ys = _vectors(gpu, 100)
    kernel = gpu.kernel(AXPY, (32, 1.0, False))
    with Pass(gpu) as made:
        for _ in range(5):
            made.dispatch(kernel, [x, y], struct.pack("If", 100, 0.0), (4, 1, 1))
        made.end()
        gpu.wait(made.submit())
        gpu.upload(x, xs * 3)
        gpu.wait(made.submit())
    np.testing.assert_array_equal(gpu.download(y).view(np.float32), ys + 20 * xs)
