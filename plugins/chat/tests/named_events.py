"""Reading server-sent events that have names."""

from __future__ import annotations

import json
from typing import Any


def named_events(body: str) -> list[dict[str, Any]]:
    """The events of a body, parsed. AssertionError for bad framing or a name that is not the event's `type`."""
    assert body.endswith("\n\n")
    events = []
    for event in body[:-2].split("\n\n"):
        name, data = event.split("\n")
        parsed = json.loads(data.removeprefix("data: "))
        assert name == f"event: {parsed['type']}"
        events.append(parsed)
    return events
