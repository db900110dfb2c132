"""Passes: dispatches, copies, barriers, replay, refusals."""

from __future__ import annotations

import gc
import struct
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.memory import View

AXPY = Path(__file__).parent / "shaders" / "axpy.spv"
Floats = NDArray[np.float32]


def _vectors(gpu: Gpu, n: int) -> tuple[View, View, Floats, Floats]:
    arena = gpu.arena()
    x, y = arena.take(4 * n), arena.take(4 * n)
    numbers = np.random.default_rng(n)
    xs, ys = (numbers.integers(-50, 50, n).astype(np.float32) for _ in range(2))
    gpu.upload(x, xs)
    gpu.upload(y, ys)
    return x, y, xs, ys


def _floats(gpu: Gpu, view: View) -> Floats:
    return gpu.download(view).view(np.float32)


@pytest.mark.parametrize("constants", [(64, 2.5, False), (1, -3, True), (128, 0.5, 0)])
def test_a_dispatch_takes_constants_push_and_grid(gpu: Gpu, constants: tuple[int, float, bool]) -> None:
    x, y, xs, ys = _vectors(gpu, 333)
    local, a, negate = constants
    with Pass(gpu) as made:
        made.dispatch(gpu.kernel(AXPY, constants), [x, y], struct.pack("If", 332, 0.25), (-(-333 // local), 1, 1))
        made.end()
        gpu.wait(made.submit())
    ys[:332] += (-a if negate else a) * xs[:332] + np.float32(0.25)
    np.testing.assert_array_equal(_floats(gpu, y), ys)


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
    np.testing.assert_array_equal(_floats(gpu, y), ys + 20 * xs)


def test_passes_see_what_those_before_them_wrote(gpu: Gpu) -> None:
    x, y, xs, ys = _vectors(gpu, 100)
    kernel = gpu.kernel(AXPY, (32, 1.0, False))
    first, second = Pass(gpu), Pass(gpu)
    first.dispatch(kernel, [x, y], struct.pack("If", 100, 0.0), (4, 1, 1))
    second.dispatch(kernel, [y, x], struct.pack("If", 100, 0.0), (4, 1, 1))
    for made in (first, second):
        made.end()
    first.submit()
    gpu.wait(second.submit())
    np.testing.assert_array_equal(_floats(gpu, x), xs + (ys + xs))


def test_copies_and_fills(gpu: Gpu) -> None:
    x, y, xs, ys = _vectors(gpu, 100)
    kernel = gpu.kernel(AXPY, (32, 1.0, False))
    with Pass(gpu) as made:
        made.dispatch(kernel, [x, y], struct.pack("If", 100, 0.0), (4, 1, 1))
        made.copy(y.slice(0, 40), x.slice(80, 40))
        made.fill(y.slice(4, 8), struct.unpack("I", struct.pack("f", 9.0))[0])
        made.dispatch(kernel, [x, y], struct.pack("If", 100, 0.0), (4, 1, 1))
        made.end()
        gpu.wait(made.submit())
    total = ys + xs
    xs[20:30] = total[:10]
    total[1:3] = 9.0
    np.testing.assert_array_equal(_floats(gpu, y), total + xs)


def test_stamps_are_times_in_order(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _, _ = _vectors(gpu, 100)
    with Pass(gpu, timestamps=2) as made:
        assert made.stamp() == 0
        made.dispatch(gpu.kernel(AXPY, (32, 1.0, False)), [x, y], struct.pack("If", 100, 0.0), (4, 1, 1))
        assert made.stamp() == 1
        with pytest.raises(ValueError, match="made for 2 timestamps"):
            made.stamp()
        made.end()
        gpu.wait(made.submit())
        before, after = made.times()
    assert after >= before > 0
    monkeypatch.setattr(gpu.physical, "timestamp_bits", 0)
    with pytest.raises(ValueError, match="has no timestamps"):
        Pass(gpu, timestamps=1)


def test_a_pass_keeps_its_memory(gpu: Gpu) -> None:
    x, y, xs, ys = _vectors(gpu, 100)
    result = gpu.arena(host=True).take(400)
    made = Pass(gpu)
    made.dispatch(gpu.kernel(AXPY, (32, 1.0, False)), [x, y], struct.pack("If", 100, 0.0), (4, 1, 1))
    made.copy(y, result)
    made.end()
    del x, y
    gc.collect()
    gpu.wait(made.submit())
    np.testing.assert_array_equal(result.array.view(np.float32), ys + xs)


def test_what_cannot_be_dispatched_is_refused(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = gpu.kernel(AXPY, (32, 1.0, False))
    view = gpu.arena().take(400)
    made = Pass(gpu)
    with pytest.raises(ValueError, match="binds 2 views, 1 are given"):
        made.dispatch(kernel, [view])
    with pytest.raises(ValueError, match="a view of 4 bytes at .* cannot be bound"):
        made.dispatch(kernel, [view, view.slice(4, 4)])
    for push in (b"abc", bytes(132)):
        with pytest.raises(ValueError, match=f"{len(push)} push bytes"):
            made.dispatch(kernel, [view, view], push)
    for grid in ((0, 1, 1), (1, 1, 2**30)):
        with pytest.raises(ValueError, match="a grid of"):
            made.dispatch(kernel, [view, view], bytes(8), grid)
    monkeypatch.setattr(gpu, "limits", replace(gpu.limits, storage_buffer_range=399))
    with pytest.raises(ValueError, match="at most 399 bytes"):
        made.dispatch(kernel, [view, view])
    with pytest.raises(ValueError, match="cannot copy 8 bytes to a view of 4"):
        made.copy(view.slice(0, 8), view.slice(16, 4))
    with pytest.raises(ValueError, match="only whole words"):
        made.fill(view.slice(0, 6))


def test_a_pass_is_recorded_once_and_never_submitted_while_it_runs(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pass(gpu)
    with pytest.raises(ValueError, match="call end"):
        made.submit()
    with pytest.raises(ValueError, match="call end"):
        made.times()
    made.end()
    with pytest.raises(ValueError, match="has been recorded"):
        made.end()
    assert made.times() == []
    gpu.wait(made.submit())
    with monkeypatch.context() as patch:
        patch.setattr(gpu, "done", lambda tick: False)
        with pytest.raises(ValueError, match="still running"):
            made.submit()
    gpu.wait(made.submit())


def test_waiting_has_a_deadline(gpu: Gpu) -> None:
    with Pass(gpu) as made:
        made.end()
        tick = made.submit()
        gpu.wait(tick)
        assert gpu.done(tick)
        assert not gpu.done(tick + 1)
        with pytest.raises(TimeoutError, match="within 0.01 seconds"):
            gpu.wait(tick + 1, 0.01)


def test_threads_submit_beside_each_other(gpu: Gpu) -> None:
    kernel = gpu.kernel(AXPY, (32, 1.0, False))
    found: list[bool] = []

    def work(seed: int) -> None:
        x, y, xs, ys = _vectors(gpu, 200 + seed)
        with Pass(gpu) as made:
            made.dispatch(kernel, [x, y], struct.pack("If", 200 + seed, 0.0), (10, 1, 1))
            made.end()
            for _ in range(20):
                gpu.wait(made.submit())
        found.append(bool((_floats(gpu, y) == ys + 20 * xs).all()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
