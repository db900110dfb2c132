"""Structures and constants of the Vulkan API by their names in its specification."""

from __future__ import annotations

import re
from functools import cache
from typing import Any


def structure_type_name(name: str) -> str:
    """The tag of a structure: VkSubmitInfo has VK_STRUCTURE_TYPE_SUBMIT_INFO, Vulkan12 becomes VULKAN_1_2."""
    match = re.fullmatch(r"Vk(\w+?)(EXT|KHR)?", name)
    assert match is not None
    words = re.sub(r"(?<!^)(?=[A-Z0-9])", "_", match[1]).upper()
    return f"VK_STRUCTURE_TYPE_{words}" + (f"_{match[2]}" if match[2] else "")


@cache
def constant(name: str) -> int:
    """An enumeration's value, `VK_` left out of its name."""
    from golem_host.devices.vulkan._abi import ffi

    return ffi.integer_const(f"VK_{name}")


@cache
def _type(name: str) -> tuple[Any, int | None]:
    from golem_host.devices.vulkan._abi import ffi

    pointer = ffi.typeof(f"{name} *")
    if not any(field == "sType" for field, _ in pointer.item.fields):
        return pointer, None
    return pointer, ffi.integer_const(structure_type_name(name))


def struct(name: str, **fields: Any) -> Any:
    """A new structure, its tag set. It keeps alive nothing that its fields point to: the caller does."""
    from golem_host.devices.vulkan._abi import ffi

    pointer, tag = _type(name)
    made: Any = ffi.new(pointer)
    if tag is not None:
        made.sType = tag
    for field, value in fields.items():
        setattr(made, field, value)
    return made
