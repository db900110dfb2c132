"""How much memory there is for models."""

from __future__ import annotations

from pathlib import Path


def available_bytes() -> int | None:
    """Bytes a new allocation may take without swapping, within the control group's limit; None where nothing tells."""
    free = _meminfo("MemAvailable")
    limit = _read_number(Path("/sys/fs/cgroup/memory.max"))
    used = _read_number(Path("/sys/fs/cgroup/memory.current"))
    if limit is not None and used is not None:
        # Page cache counts as used there but is given back when needed.
        inside = limit - used + _cgroup_file_cache()
        free = inside if free is None else min(free, inside)
    return free


def total_bytes() -> int | None:
    """Bytes of memory this process could have, the machine's or its control group's; None where nothing tells."""
    sizes = [_meminfo("MemTotal"), _read_number(Path("/sys/fs/cgroup/memory.max"))]
    return min((size for size in sizes if size is not None), default=None)


def _meminfo(field: str) -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == field:
                return int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max": no limit.
        return None


def _cgroup_file_cache() -> int:
    try:
        for line in Path("/sys/fs/cgroup/memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "file":
                return int(value)
    except (OSError, ValueError):
        pass
    return 0
