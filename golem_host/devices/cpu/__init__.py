"""The CPU device: recordings compiled to one native call, with torch twins where the native library has no kernel."""

from golem_host.devices.cpu.backend import CpuBackend
from golem_host.devices.cpu.cache import CpuCache
from golem_host.devices.cpu.program import Program
from golem_host.devices.cpu.state import CpuState
from golem_host.devices.state import Checkpoint

__all__ = ["Checkpoint", "CpuBackend", "CpuCache", "CpuState", "Program"]
