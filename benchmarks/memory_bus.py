"""The plain read that weights read per second are compared with: plain_read.cpp, built with `c++` (or CXX).

Ordinary pages are 4 KiB, which a virtual machine pays for at every miss of the translation cache; huge ones 2 MiB.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).parent / "plain_read.cpp"
MIB = 1024
PASSES = 5


class PlainRead:
    """Reads 1 GiB of private memory, whose pages the system is told to make ordinary or huge."""

    def __init__(self, program: Path, threads: int) -> None:
        self._command = [str(program), str(MIB), str(threads), str(PASSES)]

    def rate(self, pages: str) -> float:
        """GB/s, the median of several passes. Exits when the system has no huge pages to give."""
        words = subprocess.run([*self._command, pages], check=True, capture_output=True, text=True).stdout.split()
        *rates, huge_mib = map(float, words)
        if pages == "huge" and huge_mib < MIB / 2:
            sys.exit("no huge pages: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
        return statistics.median(rates)


@contextmanager
def plain_read(threads: int) -> Iterator[PlainRead]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "plain_read"
        command = [os.environ.get("CXX", "c++"), "-O3", "-march=native", "-pthread", str(SOURCE), "-o", str(program)]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"cannot build {SOURCE.name}: {error}")
        yield PlainRead(program, threads)
