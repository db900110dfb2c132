"""A device for the tests of this folder, which are a process of their own: a driver's fault ends it.

Without a device they are skipped with the reason, unless GOLEM_TEST_VULKAN=1 demands one. Which device is the loader's
business: VK_ICD_FILENAMES chooses the software driver.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.errors import NoVulkan
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.lower import lower
from golem_host.devices.vulkan.physical import PhysicalDevice, gpus
from golem_host.devices.vulkan.program import Program
from golem_host.ops import Recording


@pytest.fixture(scope="session")
def physical() -> PhysicalDevice:
    """The first device."""
    try:
        return gpus()[0]
    except NoVulkan as error:
        if os.environ.get("GOLEM_TEST_VULKAN") == "1":
            raise
        pytest.skip(f"needs a Vulkan device: {error}")


@pytest.fixture(scope="session")
def gpu(physical: PhysicalDevice, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gpu]:
    """The first device in use, for all tests that leave it as it was. Pipelines go to a folder of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with Gpu(physical) as made:
            yield made


class ShadersOnly(VulkanBackend):
    """Refuses what a torch twin would compute: what is tested here are shaders."""

    def compile(self, recording: Recording) -> Program:
        twins = [step.command.op for step in lower(self.gpu, recording).steps if step.command is not None]
        assert not twins, f"computed by torch twins: {twins}"
        return super().compile(recording)


@pytest.fixture(scope="session")
def vulkan(gpu: Gpu) -> VulkanBackend:
    """The first device, of which only shaders may be used."""
    return ShadersOnly(gpu)


@pytest.fixture(scope="session")
def cpu() -> CpuBackend:
    """The CPU's kernels, whose bits shaders give."""
    return CpuBackend(threads=1)


@pytest.fixture(scope="session")
def twin() -> CpuBackend:
    """The torch twins, with which shaders are compared."""
    return CpuBackend(threads=1, native=False)
