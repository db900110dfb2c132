"""What `golem-host bench` times of an encoder, on tiny checkpoints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from golem_host import bench as benching
from golem_host import cli
from golem_host.testing.tiny_bert import tiny_bert_directory
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf


@pytest.mark.parametrize("classifier", [False, True])
def test_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], classifier: bool
) -> None:
    for name in list(os.environ):
        if name.startswith("GOLEM_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(benching, "ROUNDS", 2)
    short = tiny_bert_directory(tmp_path / "bert", max_seq_length=None if classifier else 16, classifier=classifier)
    nomic = tiny_nomic_gguf(tmp_path / "nomic.gguf")
    words = ["bench", "--enable", "embed", "--embed-model", str(short), "--embed-model", str(nomic), "--json"]
    assert cli.main([*words, "--threads", "1"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    for model, length in zip(models, (32 if classifier else 16, 32), strict=True):
        assert [work["name"] for work in model["works"]] == [
            f"one text of {length} tokens",
            f"64 texts of {length} tokens",
            f"8 clients, each one text of {length} tokens",
        ]
        assert {work["unit"] for work in model["works"]} == {"tokens/s"}
        assert all(len(work["rates"]) == 2 and min(work["rates"]) > 0 for work in model["works"])
