"""Ask llama.cpp or transformers, which live in another interpreter, and keep their answers.

`GOLEM_ORACLE_PYTHON` names that interpreter (extra `oracle`). Each question is one process running a script of
tests/oracle; answers are kept in the temporary directory under a hash of the scripts, the question and the model file's
content.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SCRIPTS = Path(__file__).parent / "oracle"


class Oracle:
    """Runs scripts of tests/oracle with the interpreter `python`."""

    def __init__(self, python: str, cache: Path | None = None) -> None:
        self._python = python
        self._cache = cache or Path(tempfile.gettempdir()) / "golem-host-oracle"
        self._cache.mkdir(parents=True, exist_ok=True)

    def llama(self, command: str, model: Path, **request: Any) -> dict[str, Any]:
        """llama.cpp: commands and members as tests/oracle/llama_cpp.py says; arrays come as numpy arrays."""
        return self._ask("llama_cpp.py", {"command": command, "model": str(model), **request})

    def transformers(self, model: Path, tokens: list[int]) -> dict[str, np.ndarray]:
        """Every layer of a transformers forward pass: names as tests/oracle/transformers_layers.py says."""
        return self._ask("transformers_layers.py", {"model": str(model), "tokens": tokens})

    def _ask(self, script: str, request: dict[str, Any]) -> dict[str, Any]:
        key = hashlib.sha256(self._python.encode())
        for source in sorted(SCRIPTS.glob("*.py")):
            key.update(source.read_bytes())
        key.update(json.dumps({**request, "model": _content(Path(request["model"]))}, sort_keys=True).encode())
        kept = self._cache / f"{script.removesuffix('.py')}-{key.hexdigest()[:32]}"
        answer, arrays = kept.with_suffix(".json"), kept.with_suffix(".npz")
        if not answer.exists():
            partial = arrays.with_name(f"{os.getpid()}-{arrays.name}")
            done = subprocess.run(
                [self._python, str(SCRIPTS / script)],
                input=json.dumps({**request, "output": str(partial)}),
                capture_output=True,
                text=True,
                timeout=600,
            )
            if done.returncode:
                raise RuntimeError(f"{script} failed:\n{done.stderr[-4000:]}")
            json.loads(done.stdout)
            if partial.exists():
                partial.replace(arrays)
            written = answer.with_name(f"{os.getpid()}-{answer.name}")
            written.write_text(done.stdout)
            written.replace(answer)
        result = json.loads(answer.read_text())
        if arrays.exists():
            with np.load(arrays) as stored:
                result |= dict(stored)
        return result


def _content(path: Path) -> str:
    """A digest of the file and its further shards; large files by size and time of change."""
    digest = hashlib.sha256()
    stem = path.name.split("-00001-of-")[0]
    for part in sorted(path.parent.glob(f"{stem}-0*-of-0*.gguf")) if stem != path.name else [path]:
        status = part.stat()
        digest.update(
            part.read_bytes() if status.st_size < 1 << 26 else f"{status.st_size} {status.st_mtime_ns}".encode()
        )
    return digest.hexdigest()
