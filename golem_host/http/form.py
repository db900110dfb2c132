"""Reading a form, a file and fields, which is hostile input until it is parsed."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import Any

from litestar import Request
from multipart import MultipartError, MultipartParser, parse_options_header

from golem_host.errors import BadRequest, UnsupportedMediaType
from golem_host.http.fields import LONGEST_NAME, Fields
from golem_host.printable import printable

MAX_PARTS = 64
MAX_FIELD_BYTES = 1 << 16
"""Of all fields but the file together."""


@dataclass(frozen=True)
class Form:
    """`file` is None where there is none. `fields` are the others by name, each with all of its values as they were
    sent; a name's `[]` is left out.
    """

    file: bytes | None
    fields: dict[str, list[str]]

    def text(self, name: str) -> str | None:
        """A field's value, the last that is not empty; None where there is none."""
        return next((value for value in reversed(self.fields.get(name, ())) if value), None)

    def reader(self) -> Fields:
        """Reads the fields by type and refuses them by name, as those of a JSON body are.

        `true` and `false` are booleans in any case of letters, `2` and `0.5` numbers; `array` gives all values of a
        field as strings. An empty value is the same as an absent one. Neutral values of `refuse` are texts.
        """
        return _TextFields(self)


class _TextFields(Fields):
    def __init__(self, form: Form) -> None:
        super().__init__({name: form.text(name) for name in form.fields})
        self._form = form

    def _as(self, name: str, kind: type) -> Any:
        text: str | None = self.value(name)
        if text is None:
            return None
        if kind is list:
            return [value for value in self._form.fields[name] if value]
        if kind is bool:
            return {"true": True, "false": False}.get(text.lower(), text)
        return _number(text) if kind in (int, float) else text

    def _wrong(self, name: str, expected: str, value: Any) -> BadRequest:
        return self.fault(name, f"expected {expected}, got {printable(str(value), LONGEST_NAME)!r}")


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


async def read_form(request: Request[Any, Any, Any], *, file: str = "file") -> Form:
    """The form in a request's body; `file` is the name of the field that holds the file.

    Raises BadRequest for what is no form, for two files, a file under another name, a field that is not UTF-8 and
    fields of more than 64 KiB together, UnsupportedMediaType for another kind of body, and whatever the listener's
    policy raises while it arrives.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get("boundary")
    if kind != "multipart/form-data" or not boundary:
        raise UnsupportedMediaType("this route takes a form with a file: send Content-Type: multipart/form-data")
    body = await request.body()
    return await asyncio.to_thread(_parsed, body, boundary, file)


def _parsed(body: bytes, boundary: str, file_name: str) -> Form:
    file: bytes | None = None
    fields: dict[str, list[str]] = {}
    left = MAX_FIELD_BYTES
    try:
        parser = MultipartParser(
            io.BytesIO(body),
            boundary,
            content_length=len(body),
            disk_limit=len(body) + 1,
            memory_limit=len(body) + 1,
            spool_limit=len(body) + 1,
            part_limit=MAX_PARTS,
            strict=True,
        )
        for part in parser:
            if part.name == file_name:
                if file is not None:
                    raise BadRequest(f"Field '{file_name}': one file at a time is taken", param=file_name)
                file = part.raw
                continue
            name = (part.name or "").removesuffix("[]")
            shown = printable(name, LONGEST_NAME)
            if part.filename:
                raise BadRequest(f"Field '{shown}' is a file; the file goes into '{file_name}'", param=shown)
            left -= part.size
            if left < 0:
                raise BadRequest(f"the fields of the form are over {MAX_FIELD_BYTES} bytes together")
            try:
                fields.setdefault(name, []).append(part.raw.decode("utf-8"))
            except UnicodeDecodeError:
                raise BadRequest(f"Field '{shown}': is not UTF-8", param=shown) from None
    except MultipartError as error:
        raise BadRequest(f"the request body is no form: {error}") from None
    return Form(file, fields)
