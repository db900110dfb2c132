"""The stt plugin passes golem-host's conformance suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from golem_host.testing.conformance import PluginConformance, Sample
from golem_host.testing.tiny_stt import tiny_stt_directory
from stt_checks import encoded, recording

PATH = "/v1/audio/transcriptions"


def text(response: httpx.Response) -> Any:
    """The transcript, whole or in pieces."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()["text"]
    lines = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: {")]
    events = [json.loads(line) for line in lines]
    deltas = "".join(event.get("delta", "") for event in events)
    assert events[-1]["text"] == deltas
    return deltas


def sample(seconds: float, seed: int) -> Sample:
    return Sample(
        "POST",
        PATH,
        form={"model": "tiny"},
        files={"file": encoded(recording(seconds, seed))},
        stream={"stream": True},
        told=text,
    )


class TestConformance(PluginConformance):
    plugin = "stt"
    documents = (Path(__file__).parents[3] / "docs" / "settings.md",)
    seats = 2
    samples = (sample(1.0, 11), sample(1.3, 12))

    def settings(self, folder: Path) -> dict[str, str]:
        return {"stt-model": f"tiny={tiny_stt_directory(folder / 'tiny')}", "stt-streams": "2"}
