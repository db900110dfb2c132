"""Digests of model files, each computed once."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

log = logging.getLogger("golem_host.registry")


class DigestCache:
    """sha256 of files, remembered by path, size and modification time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, path: Path) -> str:
        stat = path.stat()
        key = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
        known = self._read()
        if key not in known:
            known[key] = _sha256(path)
            self._write(known)
        return known[key]

    def _read(self) -> dict[str, str]:
        try:
            content = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, known: dict[str, str]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(".tmp")
            draft.write_text(json.dumps(known, indent=1))
            draft.replace(self._path)
        except OSError as error:
            log.warning("digests are not kept: %s", error)


def _sha256(path: Path) -> str:
    if path.is_dir():
        digest = hashlib.sha256()
        for file in sorted(child for child in path.rglob("*") if child.is_file()):
            digest.update(f"{file.relative_to(path)}\0{_sha256(file)}\n".encode())
        return digest.hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
