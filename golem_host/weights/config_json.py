"""JSON files beside weights, as transformers writes them: bounded, and with the file's name in every error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from golem_host.errors import ModelFileError

__all__ = ["Config", "read_config", "read_json_file"]

MAX_BYTES = 1 << 24


class Config:
    """A JSON object of a file. Its methods raise `ModelFileError` for values that are not as they ask."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = values

    def positive(self, key: str, limit: int, default: int | None = None, *, least: int = 1) -> int:
        """A whole number from `least` to `limit`."""
        value = self.values.get(key, default)
        if type(value) is not int or not least <= value <= limit:
            raise ModelFileError(self.path, f"'{key}' is {value!r}; a number from {least} to {limit} is expected")
        return value

    def require(self, key: str, expected: Any, default: Any) -> None:
        """That the value, or the `default` where there is none, is the one that is served."""
        value = self.values.get(key, default)
        if value != expected:
            raise ModelFileError(self.path, f"'{key}' is {value!r}; only {expected!r} is served")


def read_config(path: Path) -> Config:
    """A JSON object. Raises `ModelFileError` for a file that is missing, too large or something else."""
    return Config(path, read_json_file(path, dict))


def read_json_file(path: Path, kind: type) -> Any:
    """The `dict` or `list` in a file. Raises `ModelFileError` for one that is missing, too large or something else."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait until somebody writes to it
            raise ModelFileError(path, "is not a regular file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelFileError(path, f"cannot be opened: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ModelFileError(path, f"is larger than the {MAX_BYTES} bytes that are read")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(path, f"is not JSON: {error}") from None
    if not isinstance(value, kind):
        raise ModelFileError(path, f"is not {'an object' if kind is dict else 'an array'} of JSON")
    return value
