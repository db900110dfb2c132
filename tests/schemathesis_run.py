"""Requests made at random from the served OpenAPI document, against the real command: no 5xx, no status that is not
described, no answer of another form. `python tests/schemathesis_run.py` ends with 0 when nothing was found; another
seed than 1 may follow.

GOLEM_CLIENTS_PYTHON is the interpreter that has schemathesis (extra `clients`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from golem_host.testing.command import Command
from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_bert import tiny_bert_gguf
from golem_host.testing.tiny_krea2 import tiny_krea2_directory
from golem_host.testing.tiny_stt import tiny_stt_directory

SECONDS = 75
"""For all routes together; the run then stops where it is."""
TIMEOUT = 600
"""For one request, in seconds: a machine that stands still for a minute is no fault of the host."""
SLOWEST = 20

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main(seed: str) -> int:
    python = os.environ.get("GOLEM_CLIENTS_PYTHON")
    if not python:
        print("set GOLEM_CLIENTS_PYTHON to an interpreter that has golem-host's `clients` extra", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        marks = {f"tokenizer.ggml.fim_{name}_token_id": id for id, name in enumerate(("pre", "suf", "mid"), 1)}
        chat = tiny_gguf(Path(folder) / "tiny.gguf", "qwen3", metadata=marks)
        embed = tiny_bert_gguf(Path(folder) / "tiny-bert.gguf")
        hears = tiny_stt_directory(Path(folder) / "tiny-stt")
        draws = tiny_krea2_directory(Path(folder) / "tiny-krea2")
        serving = Command(
            *("--enable", "chat,embed,stt,krea2", "--chat-model", str(chat), "--embed-model", str(embed)),
            *("--stt-model", str(hears), "--krea2-model", str(draws)),
            *("--addr", "127.0.0.1:0", "--model-folder", folder, "--max-tokens", "4", "--log-format", "json"),
            *("--slot-save-path", folder),
            # Nothing outside this machine is asked.
            env={"HF_ENDPOINT": "http://127.0.0.1:9"},
        )
        with serving:
            found = subprocess.run(
                [
                    *(python, "-m", "schemathesis.cli", "run", f"{serving.url}/schema/openapi.json"),
                    *("--checks", CHECKS, "--phases", "coverage,fuzzing", "--max-time", str(SECONDS), "--seed", seed),
                    *("--workers", "2", "--suppress-health-check", "all", "--warnings", "off"),
                    *("--request-timeout", str(TIMEOUT)),
                    # Refused as llama-server refuses it, with a 501.
                    *("--exclude-operation-id", "post_props"),
                ],
                cwd=folder,
                env={name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")},
            )
        if found.returncode:
            _tell(serving.lines)
        return found.returncode


def _tell(lines: list[str]) -> None:
    """What the host said of it: warnings and errors, and the requests that took longest."""
    requests = []
    for line in lines:
        entry = json.loads(line) if line.startswith("{") else {}
        if "ms" in entry and "path" in entry:
            requests.append((entry["ms"], line))
        elif entry.get("level") != "info":
            print(line)
    print(f"The {SLOWEST} slowest of {len(requests)} requests:")
    for _, line in sorted(requests, reverse=True)[:SLOWEST]:
        print(line)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ("1",)))
