"""The laya plugin passes golem-host's conformance suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from golem_host.testing.conformance import PluginConformance, Sample
from golem_host.testing.tiny_laya import tiny_laya_directory
from laya_checks import QUESTIONS, STATE


class TestConformance(PluginConformance):
    plugin = "laya"
    documents = (Path(__file__).parents[3] / "docs" / "settings.md",)
    takes_any_field = "the original server ignores fields it does not know"
    any_model = True
    samples = (
        Sample("POST", "/v1/systemone", json={"state": STATE, "questions": QUESTIONS}),
        Sample("POST", "/v1/systemone", json={"state": "It rains.", "questions": QUESTIONS}),
        Sample("POST", "/v1/systemone/batch", json={"states": ["It rains.", STATE], "questions": QUESTIONS}),
    )

    def poison(self, job: Any) -> bool:
        """One of its sequences is none: every pass that has it raises."""
        job.request.rows[0] = None
        return True

    def settings(self, folder: Path) -> dict[str, str]:
        return {"laya-model": str(tiny_laya_directory(folder / "tiny"))}
