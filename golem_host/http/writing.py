"""JSON as it leaves the host."""

from __future__ import annotations

import json
from typing import Any

from litestar import Response


def json_bytes(value: Any) -> bytes:
    """Compact JSON in ASCII: no raw line break of any kind (U+0085, U+2028, U+2029) can split an event or a line.

    Raises ValueError for NaN and infinities, TypeError for what JSON cannot hold.
    """
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """A JSON answer."""
    return Response(json_bytes(value), status_code=status, headers=headers, media_type="application/json")


def text_response(text: str, *, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """A plain text answer."""
    return Response(text.encode(), status_code=status, headers=headers, media_type="text/plain")
