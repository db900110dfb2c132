"""Reading a form, a file and fields, which is hostile input until it is parsed."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import Any

from litestar import Request
from multipart import MultipartError, MultipartParser, parse_options_header

from golem_host.errors import BadRequest, UnsupportedMediaType

MAX_PARTS = 64
MAX_FIELD_BYTES = 1 << 16
"""Of all fields but the file together."""


@dataclass(frozen=True)
class Form:
    """`file` is None where there is none. `fields` by name, each with all of its values; a name's `[]` is left out."""

    file: bytes | None
    fields: dict[str, list[str]]

    def text(self, name: str) -> str | None:
        """A field's value, the last if there are several; None for one that is absent or empty."""
        return (self.fields.get(name) or [""])[-1] or None


async def read_form(request: Request[Any, Any, Any], *, file: str = "file") -> Form:
    """The form in a request's body; `file` is the name of the field that holds the file.

    Raises BadRequest for what is no form, for two files and for fields of more than 64 KiB together,
    UnsupportedMediaType for another kind of body, and whatever the listener's policy raises while it arrives.
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
            left -= part.size
            if left < 0:
                raise BadRequest(f"the fields of the form are over {MAX_FIELD_BYTES} bytes together")
            fields.setdefault((part.name or "").removesuffix("[]"), []).append(part.raw.decode("utf-8"))
    except MultipartError as error:
        raise BadRequest(f"the request body is no form: {error}") from None
    except UnicodeDecodeError:
        raise BadRequest("a field of the form is not UTF-8") from None
    return Form(file, fields)
