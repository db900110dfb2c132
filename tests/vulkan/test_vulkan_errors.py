"""A device that is lost, full or closed."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.errors import DeviceLost, OutOfDeviceMemory, VulkanError, check
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.physical import PhysicalDevice

AXPY = Path(__file__).parent / "shaders" / "axpy.spv"
LOST, FULL = -4, -2


@pytest.fixture
def other(physical: PhysicalDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """A device of the test's own, to be broken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Gpu(physical)
    yield made
    made.close()


def test_errors_have_their_names() -> None:
    with pytest.raises(VulkanError, match="vkX: VK_ERROR_INITIALIZATION_FAILED") as caught:
        check(-3, "vkX")
    assert (caught.value.code, caught.value.name) == (-3, "VK_ERROR_INITIALIZATION_FAILED")
    with pytest.raises(VulkanError, match="VkResult -77"):
        check(-77, "vkX")
    for code in (-1, -2):
        with pytest.raises(OutOfDeviceMemory):
            check(code, "vkX")
    assert check(2, "vkX") == 2


def test_a_lost_device_stays_lost_and_another_can_be_made(other: Gpu, physical: PhysicalDevice) -> None:
    view = other.arena().take(64)
    with Pass(other) as made:
        made.end()
        other._queue_submit = lambda info: LOST  # type: ignore[method-assign]
        with pytest.raises(DeviceLost, match="vkQueueSubmit: VK_ERROR_DEVICE_LOST"):
            made.submit()
        assert other.dead
        for call in (
            made.submit,
            lambda: Pass(other),
            lambda: other.wait(1),
            lambda: other.upload(view, bytes(64)),
            lambda: other.download(view),
            lambda: other.kernel(AXPY, (64, 1.0, False)),
            lambda: other.arena().take(64),
        ):
            with pytest.raises(DeviceLost):
                call()
    other.close()
    with Gpu(physical) as fresh:
        again = fresh.arena().take(64)
        fresh.upload(again, bytes(range(64)))
        assert fresh.download(again).tolist() == list(range(64))


def test_a_submission_without_memory_can_be_tried_again(other: Gpu) -> None:
    arena = other.arena()
    x, y = arena.take(40), arena.take(40)
    other.upload(x, np.arange(10, dtype=np.float32))
    other.upload(y, np.zeros(10, np.float32))
    with Pass(other) as made:
        made.dispatch(other.kernel(AXPY, (32, 1.0, False)), [x, y], struct.pack("If", 10, 0.0))
        made.end()
        submit = other._queue_submit
        other._queue_submit = lambda info: FULL  # type: ignore[method-assign]
        with pytest.raises(OutOfDeviceMemory):
            made.submit()
        other._queue_submit = submit  # type: ignore[method-assign]
        other.wait(made.submit())
    assert other.download(y).view(np.float32).tolist() == list(range(10))


def test_a_closed_device_refuses(other: Gpu) -> None:
    made = Pass(other)
    made.end()
    other.wait(made.submit())
    other.close()
    other.close()
    made.close()
    for call in (lambda: Pass(other), lambda: other.wait(1), lambda: other.arena().take(64)):
        with pytest.raises(ValueError, match="is closed"):
            call()


def test_a_device_that_hangs_is_left_alone(physical: PhysicalDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    real = physical.instance.lib

    class Watched:
        def __getattr__(self, name: str) -> Callable[..., object]:
            def call(*arguments: object) -> object:
                called.append(name)
                return getattr(real, name)(*arguments)

            return call

    monkeypatch.setattr(physical.instance, "lib", Watched())
    hanging = Gpu(physical)
    view = hanging.arena().take(64)
    made = Pass(hanging)
    made.end()
    hanging.wait(made.submit())
    assert "vkWaitSemaphores" in called
    called.clear()
    hanging.abandon()
    assert hanging.dead
    with pytest.raises(DeviceLost):
        hanging.upload(view, bytes(64))
    made.close()
    hanging.close()
    del hanging, view, made
    gc.collect()
    assert called == []
