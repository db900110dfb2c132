"""Ask llama.cpp, transformers, laya or moshi, which live in another interpreter, and keep their answers.

`GOLEM_ORACLE_PYTHON` names that interpreter (extra `oracle`). Each question is one process running a script of
tests/oracle; answers are kept in the temporary directory under a hash of the scripts, the question and the model file's
content, where there is one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCRIPTS = Path(__file__).parent / "oracle"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""What they compute is small, and threads that wait for each other wait long where others want the cores, too."""


class Oracle:
    """Runs scripts of tests/oracle with the interpreter `python`. A context manager: it ends them."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._cache = Path(tempfile.gettempdir()) / "golem-host-oracle"
        self._cache.mkdir(exist_ok=True)
        self._scripts: dict[str, subprocess.Popen[str]] = {}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed by __exit__

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._scripts.values():
            process.communicate()
        self._log.close()

    def llama(self, command: str, model: Path, **request: Any) -> dict[str, Any]:
        """llama.cpp: commands and members as tests/oracle/llama_cpp.py says; arrays come as numpy arrays."""
        return self._ask("llama_cpp.py", {"command": command, "model": str(model), **request})

    def samplers(self, model: Path, **request: Any) -> dict[str, Any]:
        """What llama.cpp's samplers draw and make of logits: members as tests/oracle/llama_samplers.py says."""
        return self._ask("llama_samplers.py", {"model": str(model), **request})

    def transformers(self, model: Path, tokens: list[int]) -> dict[str, np.ndarray]:
        """Every layer of a transformers forward pass: names as tests/oracle/transformers_layers.py says."""
        return self._ask("transformers_layers.py", {"model": str(model), "tokens": tokens})

    def encoder(self, folder: Path, texts: list[list[int]], segments: list[list[int]]) -> NDArray[np.float32]:
        """What an encoder of transformers gives each text: see tests/oracle/transformers_encoder.py."""
        weights = folder / "model.safetensors"
        return self._ask("transformers_encoder.py", {"model": str(weights), "texts": texts, "segments": segments})[
            "out"
        ]

    def mixture(self, weights: Path, **request: Any) -> NDArray[np.float32]:
        """What an expert mixture of transformers gives: members as tests/oracle/transformers_mixture.py says."""
        return self._ask("transformers_mixture.py", {"model": str(weights), **request})["out"]

    def transformers_part(self, part: str, **request: Any) -> dict[str, np.ndarray]:
        """One part of a transformers model on random inputs: parts and members as tests/oracle/transformers_parts.py
        says."""
        return self._ask("transformers_parts.py", {"part": part, **request})

    def laya(self, checkpoint: Path, posts: list[tuple[str, Any]]) -> list[tuple[int, Any]]:
        """Status and body that laya's own server answers to [path, body]s, as tests/oracle/laya_server.py says."""
        answers = self._ask("laya_server.py", {"model": str(checkpoint), "posts": posts})["answers"]
        return [(status, body) for status, body in answers]

    def laya_logits(self, checkpoint: Path, rows: list[list[Any]]) -> list[tuple[list[float], float]]:
        """Raw logits and the probability to act of [ids, markers, kind]s, as tests/oracle/laya_server.py says."""
        return self._ask("laya_server.py", {"model": str(checkpoint), "rows": rows})["decisions"]

    def krea2(self, root: Path, part: str, **request: Any) -> dict[str, np.ndarray]:
        """Krea 2 by diffusers: parts and members as tests/oracle/diffusers_krea2.py says."""
        return self._ask("diffusers_krea2.py", {"model": str(root), "part": part, **request})

    def moshi(self, checkpoint: Path, pcm: NDArray[np.float32]) -> dict[str, Any]:
        """What moshi hears in samples at 24 kHz, whole frames of 1920: members as tests/oracle/moshi_stt.py says."""
        return self._ask("moshi_stt.py", {"model": str(checkpoint), "pcm": base64.b64encode(pcm.tobytes()).decode()})

    def _ask(self, script: str, request: dict[str, Any]) -> dict[str, Any]:
        kept = self._cache / f"{script.removesuffix('.py')}-{self._key(script, request)}"
        answer, arrays = kept.with_suffix(".json"), kept.with_suffix(".npz")
        if not answer.exists():
            # Two runs may ask the same: each writes files of its own, the answer last.
            new_arrays, new_answer = (each.with_name(f"{os.getpid()}-{each.name}") for each in (arrays, answer))
            new_answer.write_text(self._reply(script, {**request, "output": str(new_arrays)}))
            if new_arrays.exists():
                new_arrays.replace(arrays)
            new_answer.replace(answer)
        result = json.loads(answer.read_text())
        if arrays.exists():
            with np.load(arrays) as stored:
                result |= dict(stored)
        return result

    def _key(self, script: str, request: dict[str, Any]) -> str:
        key = hashlib.sha256(f"{self._python} {script}".encode())
        for source in sorted(SCRIPTS.glob("*.py")):
            key.update(source.read_bytes())
        model = _content(Path(request["model"])) if "model" in request else None
        key.update(json.dumps({**request, "model": model}, sort_keys=True).encode())
        return key.hexdigest()[:32]

    def _reply(self, script: str, request: dict[str, Any]) -> str:
        if script not in self._scripts:
            self._scripts[script] = subprocess.Popen(
                [self._python, str(SCRIPTS / script)],
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        process = self._scripts[script]
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        reply = process.stdout.readline()
        if not reply or "error" in json.loads(reply):
            self._log.seek(0)
            raise RuntimeError(f"{script} failed: {json.loads(reply)['error'] if reply else self._log.read()[-4000:]}")
        return reply


def _content(path: Path) -> str:
    """A digest of a folder's files, or of the file and its further shards; large files by size and time of change."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            digest.update(f"{file.relative_to(path)} ".encode() + file.read_bytes())
        return digest.hexdigest()
    stem = path.name.split("-00001-of-")[0]
    for part in sorted(path.parent.glob(f"{stem}-0*-of-0*.gguf")) if stem != path.name else [path]:
        status = part.stat()
        digest.update(
            part.read_bytes() if status.st_size < 1 << 26 else f"{status.st_size} {status.st_mtime_ns}".encode()
        )
    return digest.hexdigest()
