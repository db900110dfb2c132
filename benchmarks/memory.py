"""Does memory grow with requests? python benchmarks/memory.py MODEL.gguf

Resident memory of a running host after every hundred short chat requests of ever new prompts; it should be flat.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from servers import host, running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    with running("golem-host", host(given.model, slots=4, context=2048, threads=given.threads)) as server:
        for count in range(given.requests + 1):
            server.complete(f"Note {count}: the {count % 7}th of {count % 11}", 4)
            if count % 100 == 0:
                print(f"{count:6d} requests {server.resident_mib():8.1f} MiB", flush=True)


main()
