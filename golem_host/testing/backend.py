"""The processor as models see it (`device.backend`), for tests of a recording without a host."""

from __future__ import annotations

from golem_host.devices.cpu import CpuBackend


def cpu_backend(*, threads: int = 1, native: bool = True) -> CpuBackend:
    """Compiles recordings for the processor; with `native` False everything is computed by the torch twins."""
    return CpuBackend(threads=threads, native=native)
