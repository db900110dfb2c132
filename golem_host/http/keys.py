"""API keys."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from golem_host.errors import Unauthorized, UsageError


class ApiKeys:
    """The keys a request may carry as `Authorization: Bearer KEY` or `X-Api-Key: KEY`; without keys all may call."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def check(self, authorization: str, api_key: str) -> None:
        """Raise Unauthorized unless one of the two header values carries a known key. Takes the same time for any."""
        if not self._digests:
            return
        scheme, _, bearer = authorization.strip().partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else ""
        offered = [_digest(value.encode("latin-1")) for value in (given, api_key.strip())]
        matches = [hmac.compare_digest(digest, known) for digest in offered for known in self._digests]
        if not any(matches):
            raise Unauthorized("Invalid API Key", code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})


def configured_keys(settings: Mapping[str, Any]) -> list[str]:
    """The keys of the settings `api-key` and `api-key-file` (one a line; blank lines and lines with # are skipped).

    Raises UsageError for a file that cannot be read or holds no key: the host must not stand open by mistake.
    """
    keys = list(settings["api-key"])
    path: Path | None = settings["api-key-file"]
    if path is not None:
        try:
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--api-key-file {path}: {error}") from None
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise UsageError(f"--api-key-file {path}: no key in it; write one per line")
        keys += found
    return keys


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
