"""What a served model costs: python benchmarks/footprint.py MODEL.gguf [--requests 1000] [--json]

Reports the seconds from start to ready (beside those of importing torch alone, which a start does not need), and the
resident memory before and after many short requests, which must stay flat.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import httpx

from golem_host.testing.command import Command

PAGE = 4096


def resident_mib(pid: int) -> tuple[float, float]:
    """Resident memory of a process in MiB: all of it, and the part that is not mapped from files."""
    _, resident, shared, *_ = (int(field) for field in Path(f"/proc/{pid}/statm").read_text().split())
    return resident * PAGE / 2**20, (resident - shared) * PAGE / 2**20


def torch_seconds() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - started


def measure(model: Path, requests: int) -> dict[str, float]:
    started = time.perf_counter()
    with Command("--enable", "chat", "--chat-model", str(model), "--addr", "127.0.0.1:0") as command:
        url = command.url
        ready = time.perf_counter() - started
        with httpx.Client(base_url=url, timeout=120) as client:

            def ask(number: int) -> None:
                body = {"prompt": f"Number {number}:", "max_tokens": 4, "temperature": 0}
                client.post("/v1/completions", json=body).raise_for_status()

            for number in range(50):
                ask(number)
            before = resident_mib(command.process.pid)
            for number in range(requests):
                ask(number)
            after = resident_mib(command.process.pid)
    return {
        "ready_s": ready,
        "import_torch_s": torch_seconds(),
        "resident_mib": after[0],
        "own_mib_before": before[1],
        "own_mib_after": after[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.model, options.requests)
    if options.json:
        print(json.dumps(found))
        return
    print(f"start to ready        {found['ready_s']:.2f} s   (importing torch alone: {found['import_torch_s']:.2f} s)")
    print(f"resident              {found['resident_mib']:.0f} MiB, weights included")
    before, after = found["own_mib_before"], found["own_mib_after"]
    print(f"own memory            {before:.1f} MiB, after {options.requests} requests {after:.1f} MiB")


if __name__ == "__main__":
    main()
