"""How much memory a server holds, beside the file it serves."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from servers import Server, Size

WANTED = 1.15
"""Times the file that serving may take at most, caches apart."""


@dataclass(frozen=True)
class Resident:
    """MiB: resident in all (pages of the mapped file too, whoever else maps them), private memory, and what of that is
    in huge pages.
    """

    rss: float
    anonymous: float
    huge: float


@dataclass(frozen=True)
class Memory:
    """What serving a file took when every slot was full; sizes in MiB."""

    model: str
    file: float
    caches: float
    ours: Resident
    theirs: Resident

    @property
    def times_file(self) -> float:
        return (self.ours.rss - self.caches) / self.file


def resident(server: Server) -> Resident:
    fields = dict[str, float]()
    for line in Path(f"/proc/{server.process.pid}/smaps_rollup").read_text().splitlines():
        name, *rest = line.split()
        if rest and rest[-1] == "kB":
            fields[name] = int(rest[0]) / 1024
    return Resident(fields["Rss:"], fields["Anonymous:"], fields["AnonHugePages:"])


def cache_mib(model: Path, size: Size) -> float:
    """MiB of keys, values and states, as `golem-host check` counts them: all but weights that stay in the file."""
    flags = ["--json", "--no-repack", "--parallel", str(size.slots), "--context", str(size.context)]
    command = [sys.executable, "-P", "-m", "golem_host", "check", str(model), *flags]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)["plugins"][0]
    return found["memory"] / 2**20
