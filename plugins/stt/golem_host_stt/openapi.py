"""What OpenAPI says of the speech-to-text plugin's routes. The README's table says what becomes of each field."""

from __future__ import annotations

from collections.abc import Mapping

from golem_host.api import Operation
from golem_host.http.schemas import Schema, body

_TEXT: Schema = {"type": "string"}

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/audio/transcriptions": Operation(
        takes="multipart/form-data",
        body=body(
            ("file",),
            file={"type": "string", "format": "binary"},
            model=_TEXT,
            language=_TEXT,
            response_format={"enum": ["json", "text", "srt", "verbose_json", "vtt"]},
            temperature={"const": 0},
            timestamp_granularities={"type": "array", "items": {"enum": ["word", "segment"]}},
            stream={"enum": ["true", "false"]},
        ),
        answer=body(("text",), text=_TEXT),
        streams="text/event-stream",
        others=("text/plain",),
        statuses={415: "No form, or a compressed body"},
    ),
}
