"""A request that a plugin serves, as the checks make it: whole, streamed, spoilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx


@dataclass(frozen=True)
class Sample:
    """A request that is answered with 200.

    `json` is its body, or `form` the fields of a form with `files` by field name. `stream` are the fields that ask for
    the same answer in pieces (`{"stream": True}`), None where there is no such form. `told(response)` gives what an
    answer says, the same whole and in pieces: with it both forms are compared. `names_model` says whether a field
    `model` chooses among models.
    """

    method: str
    path: str
    json: Mapping[str, Any] | None = None
    form: Mapping[str, Any] | None = None
    files: Mapping[str, bytes] | None = None
    stream: Mapping[str, Any] | None = None
    told: Callable[[httpx.Response], Any] | None = None
    names_model: bool = True

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def has_body(self) -> bool:
        return self.json is not None or self.form is not None or self.files is not None

    def with_fields(self, fields: Mapping[str, Any]) -> Sample:
        """The same with further fields in its body."""
        if self.json is not None:
            return replace(self, json={**self.json, **fields})
        return replace(self, form={**(self.form or {}), **fields})

    def streamed(self) -> Sample:
        """The same in pieces."""
        return self.with_fields(self.stream or {})

    def request(self) -> httpx.Request:
        files = {name: (name, content) for name, content in (self.files or {}).items()}
        form = {name: _form_text(value) for name, value in (self.form or {}).items()}
        return httpx.Request(
            self.method,
            f"http://localhost{self.path}",
            json=None if self.json is None else dict(self.json),
            data=form or None,
            files=files or None,
        )


def _form_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
