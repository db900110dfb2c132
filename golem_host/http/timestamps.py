"""Times as Ollama's API writes them."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

FOREVER_SECONDS = 292 * 365 * 86_400
"""How far away Ollama puts the expiry of a model that stays: the longest duration in 64 bits of nanoseconds."""


def rfc3339(nanoseconds: int) -> str:
    """RFC 3339 in UTC with nanoseconds from nanoseconds since the epoch."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def now_rfc3339() -> str:
    """The current time, for `created_at`."""
    return rfc3339(time.time_ns())


def seconds_rfc3339(seconds: float) -> str:
    """RFC 3339 from seconds since the epoch."""
    whole = math.floor(seconds)
    return rfc3339(whole * 1_000_000_000 + round((seconds - whole) * 1e9))
