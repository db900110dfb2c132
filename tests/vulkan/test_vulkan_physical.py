"""Which devices there are, what they lack, and how one is chosen."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from golem_host.devices.vulkan import loader
from golem_host.devices.vulkan.errors import NoVulkan
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.loader import Version
from golem_host.devices.vulkan.physical import PhysicalDevice, choose


def _altered(physical: PhysicalDevice, **changes: Any) -> PhysicalDevice:
    made = copy.copy(physical)
    made.__dict__.pop("missing", None)
    made.__dict__.update(changes)
    return made


def test_a_device_says_what_it_is(physical: PhysicalDevice) -> None:
    assert physical.name
    assert len(physical.uuid) == 32
    assert physical.missing == []
    assert physical.memory.size >= physical.memory.budget - physical.memory.used > 0
    assert physical.limits.storage_buffer_range >= 2**27
    assert physical.subgroup_size >= 1


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"version": Version(1, 1, 7)}, "Vulkan 1.2 (it has 1.1.7)"),
        ({"timeline": False}, "timeline semaphores"),
        ({"queue_family": None}, "a compute queue"),
    ],
)
def test_what_a_device_lacks_is_named(physical: PhysicalDevice, changes: dict[str, Any], missing: str) -> None:
    lacking = _altered(physical, **changes)
    assert lacking.missing == [missing]
    with pytest.raises(NoVulkan, match="cannot be used: it lacks"):
        Gpu(lacking)
    with pytest.raises(NoVulkan, match="cannot be used: it lacks"):
        choose([lacking])


def test_limits_that_are_too_low_are_named(physical: PhysicalDevice) -> None:
    limits = replace(physical.limits, storage_buffers=4, workgroup_invocations=128)
    assert _altered(physical, limits=limits).missing == [
        "12 storage buffers a shader (it has 4)",
        "256 invocations a workgroup (it has 128)",
    ]


def test_a_device_is_chosen_by_index_or_uuid_or_type(physical: PhysicalDevice) -> None:
    software = _altered(physical, type="cpu", uuid="0" * 32)
    card = _altered(physical, index=1, type="discrete", uuid="ab" * 16)
    broken = _altered(physical, index=2, type="discrete", uuid="cd" * 16, queue_family=None)
    devices = [software, card, broken]
    assert choose(devices) is card
    assert choose([software, broken]) is software
    assert choose(devices, "0") is software
    assert choose(devices, "ab" * 16) is card
    with pytest.raises(NoVulkan, match="no Vulkan device of index 3; there is 0 to 2"):
        choose(devices, "3")
    with pytest.raises(NoVulkan, match=f"no Vulkan device of UUID {'1' * 32}"):
        choose(devices, "1" * 32)


def test_without_a_loader_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loader.LIBRARIES, sys.platform, ["libnowhere.so.9"])
    with pytest.raises(NoVulkan, match=r"there is no Vulkan loader \(libnowhere.so.9\)"):
        loader.Instance()


def test_without_a_driver_it_is_said(physical: PhysicalDevice) -> None:
    code = "from golem_host.devices.vulkan.physical import gpus; gpus()"
    nowhere = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, **nowhere}, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "NoVulkan: Vulkan finds no" in ran.stderr
    assert "install your GPU's driver" in ran.stderr
