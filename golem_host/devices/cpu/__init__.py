"""The CPU device: recordings compiled to one native call, with torch twins where the native library has no kernel."""

from golem_host.devices.cpu.backend import CpuBackend
from golem_host.devices.cpu.cache import CpuCache
from golem_host.devices.cpu.program import Program

__all__ = ["CpuBackend", "CpuCache", "Program"]
