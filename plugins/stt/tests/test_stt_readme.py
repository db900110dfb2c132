"""The README's tables have every field and event, with the reason of each that is refused."""

from __future__ import annotations

import re
from pathlib import Path

from golem_host_stt.routes import realtime_events
from golem_host_stt.routes.unserved import FIELDS, SERVED

README = Path(__file__).parents[1] / "README.md"


def test_fields() -> None:
    section = README.read_text(encoding="utf-8").split("### POST /v1/audio/transcriptions")[1].split("###")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    assert rows.keys() == {*SERVED, *FIELDS}
    for name, reason in FIELDS.items():
        assert rows[name] == f"400: {reason}"


def test_realtime_events() -> None:
    section = README.read_text(encoding="utf-8").split("### WebSocket /v1/realtime")[1]
    client = dict(re.findall(r"^\| `([\w.]+)` \| client \| (.+) \|$", section, re.MULTILINE))
    assert client.keys() == realtime_events.FIELDS.keys()
    refused = dict(re.findall(r"^\| `(session\.[\w.]+)` \| refused: (.+) \|$", section, re.MULTILINE))
    assert refused == realtime_events.UNSERVED
