"""The binding's module is what the generator writes, and what is laid out by hand is what the header says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from golem_host.devices.vulkan import _abi, commands, generate_abi
from golem_host.devices.vulkan.structs import struct, structure_type_name


def test_the_module_is_what_the_generator_writes(tmp_path: Path) -> None:
    committed = Path(_abi.__file__).read_text()
    try:
        _, version = generate_abi.header()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs gcc and Vulkan's headers (libvulkan-dev)")
    match = re.search(r"version (\d+)", committed.splitlines()[0])
    assert match is not None
    if version != int(match[1]):
        pytest.skip(f"needs the header of version {match[1]}; this is {version}")
    generate_abi.write(tmp_path / "_abi.py")
    assert (tmp_path / "_abi.py").read_text() == committed
    assert shutil.which("gcc")


@pytest.mark.parametrize("name", ["VkSubmitInfo", "VkPhysicalDeviceVulkan12Features", "VkPhysicalDeviceFeatures2"])
def test_structures_have_their_tags(name: str) -> None:
    made = struct(name)
    assert made.sType == _abi.ffi.integer_const(structure_type_name(name))


def test_a_budget_structure_has_its_vendor_in_its_tag() -> None:
    assert structure_type_name("VkPhysicalDeviceMemoryBudgetPropertiesEXT") == (
        "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT"
    )


def test_descriptor_writes_are_laid_out_as_in_the_header() -> None:
    fields = commands._WRITE.fields
    assert fields is not None
    assert commands._WRITE.itemsize == _abi.ffi.sizeof("VkWriteDescriptorSet")
    for name, field in fields.items():
        assert field[1] == _abi.ffi.offsetof("VkWriteDescriptorSet", name)
