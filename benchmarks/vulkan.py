"""Speed on a Vulkan device, beside llama.cpp's Vulkan build, if any: python benchmarks/vulkan.py [MODEL.gguf ...]

Without a file: the shapes of `--shapes`, made on first use. Passes are timed as the chat lane runs them, without HTTP
and without sampling. The share is that of the bandwidth at which the device copies its own memory: a pass reads every
weight once.

GOLEM_LLAMA_VULKAN   a folder with llama.cpp's `llama-bench` and `llama-batched-bench`, built with -DGGML_VULKAN=ON;
                     without it they are looked for on the PATH, and without them their columns stay empty
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from golem_host.core_settings import cache_folder
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.physical import PhysicalDevice, choose, gpus
from golem_host.host import host_version
from golem_host.tables import table
from llama_vulkan import Peer, find_peer
from model_files import model_file, weights_read
from vulkan_rates import SLOTS, Rates, copy_bandwidth, measure

HEADINGS = ("FILE", "WORK", "GOLEM-HOST", "OF COPYING", "LLAMA.CPP", "RATIO")


@dataclass(frozen=True)
class Row:
    """One line of the table: rates in tokens per second; bytes of weights read per second, 0 where they say nothing."""

    file: str
    work: str
    ours: float
    bytes_read: float
    theirs: float | None

    def cells(self, copying: float) -> tuple[str, ...]:
        """The texts of the line; `copying` is the device's copy bandwidth in bytes per second."""
        return (
            self.file,
            self.work,
            f"{self.ours:.1f} t/s",
            f"{self.bytes_read / copying:.0%}" if self.bytes_read else "",
            "" if self.theirs is None else f"{self.theirs:.1f} t/s",
            "" if self.theirs is None else f"{self.ours / self.theirs:.2f}",
        )


def rows(path: Path, rates: Rates, peer: Peer | None) -> list[Row]:
    """The lines of one file."""
    weights = weights_read(path)
    found = []
    for slots in SLOTS:
        theirs = None if peer is None else peer.drawing.get(slots)
        work = "one answer" if slots == 1 else f"{slots} answers at once"
        passes = rates.drawing[slots] / slots
        found.append(Row(path.name, work, rates.drawing[slots], weights * passes, theirs))
    theirs = None if peer is None else peer.prompt
    return [*found, Row(path.name, f"prompt of {rates.prompt_tokens}", rates.prompt, 0, theirs)]


def costs(path: Path, rates: Rates) -> str:
    """What a pass costs the host beside the device's time."""
    return (
        f"{path.name}: {rates.commands} commands a token; a replay takes {rates.replay_seconds * 1e6:.0f} µs of the "
        f"processor, {rates.replay_seconds * rates.drawing[1]:.2%} of a token; recording takes "
        f"{rates.recording_seconds * 1e6:.1f} µs a command; loaded in {rates.load_seconds:.1f} s"
    )


def facts(device: PhysicalDevice, copying: float) -> list[str]:
    """What was measured where."""
    return [
        f"date: {date.today().isoformat()}",
        f"device: {device.name} ({device.type}, {device.memory.size / 2**30:.0f} GiB), {device.driver}",
        f"golem-host: {host_version()}",
        f"copying: {copying / 1e9:.1f} GB/s, bytes read and written counted",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL.gguf", help="measure these instead")
    parser.add_argument("--shapes", default="qwen3-0.6b", help="files to make and measure, separated by commas")
    parser.add_argument("--device", default="", help="index or UUID of the device (default: the best)")
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long each rate is measured")
    parser.add_argument("--out", type=Path, help="write the table to this file as well, after every model")
    parser.add_argument("--folder", type=Path, default=cache_folder() / "shapes", help="where shapes are made and kept")
    given = parser.parse_args()

    models = given.models or [model_file(name, given.folder) for name in given.shapes.split(",")]
    lines: list[Row] = []
    notes: list[str] = []
    with Gpu(choose(gpus(), given.device)) as gpu:
        copying = copy_bandwidth(gpu)
        about = facts(gpu.physical, copying)
        page = ""
        for path in models:
            print(f"measuring {path.name}", file=sys.stderr)
            rates = measure(path, gpu, given.seconds)
            peer = find_peer(path, rates.prompt_tokens)
            lines += rows(path, rates, peer)
            notes.append(costs(path, rates))
            page = "\n".join([*about, "", table(HEADINGS, [line.cells(copying) for line in lines]), "", *notes])
            if given.out is not None:
                given.out.write_text(page + "\n")
    print(page)


if __name__ == "__main__":
    main()
