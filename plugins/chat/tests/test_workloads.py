"""What `golem-host bench` times of a chat model, on a tiny checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from golem_host import bench as benching
from golem_host import cli
from golem_host.testing.tiny import tiny_gguf


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command on a tiny model with some flags: names of what was timed, with the rates."""
    for name in list(os.environ):
        if name.startswith("GOLEM_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(benching, "ROUNDS", 2)
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", context=1024)

    def run(*flags: str) -> dict[str, list[float]]:
        words = ["bench", "--enable", "chat", "--chat-model", str(path), "--threads", "1", "--json", *flags]
        assert cli.main(words) == 0
        (model,) = json.loads(capsys.readouterr().out)["models"]
        assert {work["unit"] for work in model["works"]} == {"tokens/s"}
        return {work["name"]: work["rates"] for work in model["works"]}

    return run


def test_a_prompt_an_answer_and_answers_together(timed) -> None:
    rates = timed("--parallel", "3", "--context", "2048")
    assert list(rates) == ["prompt of 480 tokens", "one answer of 64 tokens", "3 answers of 64 tokens at once"]
    assert all(len(of_one) == 2 and min(of_one) > 0 for of_one in rates.values())


def test_work_is_cut_to_what_a_slot_holds(timed) -> None:
    assert list(timed("--parallel", "1", "--context", "40")) == ["prompt of 39 tokens", "one answer of 39 tokens"]
