"""`golem-host devices`: what this machine can compute on."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from golem_host.kernels import library
from golem_host.memory import available_bytes, total_bytes
from golem_host.parsers import show_size
from golem_host.tables import table

if TYPE_CHECKING:
    from golem_host.devices.vulkan.physical import PhysicalDevice

_LACK_WIDTH = 40
"""Characters of a line of what is missing: the table then fits into 120."""


@dataclass(frozen=True)
class Entry:
    """One device. `device` is its name for `--device`, `vulkan:UUID` another; bytes are None where the system does not
    tell; `missing` is what the host needs and it lacks.
    """

    device: str
    name: str
    type: str
    memory_bytes: int | None
    free_bytes: int | None
    driver: str
    uuid: str | None = None
    missing: tuple[str, ...] = ()


def list_devices(*, as_json: bool) -> int:
    """Print the processor and the Vulkan devices, or why there are none."""
    found, problem = _vulkan()
    entries = [_cpu(), *found]
    if as_json:
        print(json.dumps({"devices": [asdict(entry) for entry in entries], "vulkan_problem": problem}, indent=2))
        return 0
    rows = [
        (
            entry.device,
            "\n".join(filter(None, (entry.name, entry.driver, entry.uuid))),
            entry.type,
            f"{_size(entry.memory_bytes)}\n{_size(entry.free_bytes)} free",
            "\n".join(line for lack in entry.missing for line in wrap(lack, _LACK_WIDTH)) or "nothing",
        )
        for entry in entries
    ]
    print(table(("DEVICE", "NAME, DRIVER, UUID", "TYPE", "MEMORY", "MISSING"), rows))
    if problem:
        print(f"no Vulkan device: {problem}")
    return 0


def _size(size: int | None) -> str:
    return "unknown" if size is None else show_size(size)


def _cpu() -> Entry:
    problem = None
    try:
        kernels = library.load()
    except library.LibraryError as error:
        kernels, problem = None, str(error)
    return Entry(
        device="cpu",
        name=_processor(),
        type="cpu",
        memory_bytes=total_bytes(),
        free_bytes=available_bytes(),
        driver=f"golem-host kernels, {kernels.isa}" if kernels else "torch",
        missing=() if kernels else (problem or library.why_missing(),),
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            label, _, value = line.partition(":")
            if label.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _vulkan() -> tuple[list[Entry], str | None]:
    """The Vulkan devices, or why there are none."""
    from golem_host.devices.vulkan.errors import NoVulkan, VulkanError
    from golem_host.devices.vulkan.physical import gpus

    try:
        return [_entry(device) for device in gpus()], None
    except (NoVulkan, VulkanError) as error:
        return [], str(error)


def _entry(device: PhysicalDevice) -> Entry:
    heap = device.memory
    return Entry(
        device=f"vulkan:{device.index}",
        name=device.name,
        type=device.type,
        memory_bytes=heap.size,
        free_bytes=max(0, heap.budget - heap.used),
        driver=f"{device.driver}, Vulkan {device.version}",
        uuid=device.uuid,
        missing=tuple(device.missing),
    )
