"""The krea2 plugin passes golem-host's conformance suite."""

from __future__ import annotations

from pathlib import Path

from golem_host.testing.conformance import PluginConformance, Sample
from golem_host.testing.conformance.answers import VOLATILE
from golem_host.testing.tiny_krea2 import tiny_krea2_directory
from krea2_checks import PATH, SMALL


class TestConformance(PluginConformance):
    plugin = "krea2"
    documents = (Path(__file__).parents[3] / "docs" / "settings.md",)
    seats = 1
    company = 4
    volatile = VOLATILE | {"progress_id"}
    samples = (
        Sample("POST", PATH, json={**SMALL, "steps": 2}, stream={"stream": True, "partial_images": 1}),
        Sample("POST", PATH, json={**SMALL, "seed": 6}),
    )

    def settings(self, folder: Path) -> dict[str, str]:
        return {"krea2-model": f"tiny={tiny_krea2_directory(folder / 'comfy')}"}
