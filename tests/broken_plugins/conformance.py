"""What the conformance suite asks plugins that spell."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from broken_plugins.spelling import ALPHABET, PATH
from golem_host.testing.conformance import PluginConformance, Sample


def told(response: httpx.Response) -> str:
    """The letters of an answer, whole or one by one."""
    return "".join(text for line in response.text.splitlines() for text in json.loads(line).values())


class Conformance(PluginConformance):
    samples = tuple(
        Sample("POST", PATH, json={"text": text}, stream={"stream": True}, told=told) for text in ("cab", "fadefade")
    )
    patience = 1.0

    def settings(self, folder: Path) -> dict[str, str]:
        path = folder / "alphabet.txt"
        path.write_text(ALPHABET, encoding="utf-8")
        return {"spell-model": str(path)}
