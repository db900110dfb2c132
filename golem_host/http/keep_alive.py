"""`keep_alive`: how long a model stays in memory after a request (decisions.md C12)."""

from __future__ import annotations

import math
from typing import Any

from golem_host.errors import BadRequest
from golem_host.parsers import signed_duration
from golem_host.registry import UNSET, KeepAlive

_LONGEST_SECONDS = 1e9
"""Beyond this (31 years) a number means for ever; the sum with the current time must stay a date."""


def parse_keep_alive(value: Any) -> KeepAlive:
    """Seconds, None for ever, or `UNSET` for the host's default.

    Numbers are seconds, strings durations as Go writes them (`5m`, `1h30m`) or a bare number of seconds; any negative
    value means for ever; null and the empty string mean the default. Raises BadRequest for anything else.
    """
    if value is None or value == "":
        return UNSET
    if isinstance(value, str):
        try:
            return _seconds(signed_duration(value))
        except ValueError as error:
            raise BadRequest(f"keep_alive: {error}", param="keep_alive") from None
    number = isinstance(value, int) and not isinstance(value, bool)
    if number or (isinstance(value, float) and math.isfinite(value)):
        return _seconds(value)
    raise BadRequest(
        "keep_alive: expected a number of seconds or a duration such as '5m'; negative: for ever", param="keep_alive"
    )


def _seconds(value: float) -> float | None:
    return None if value < 0 or value > _LONGEST_SECONDS else float(value)
