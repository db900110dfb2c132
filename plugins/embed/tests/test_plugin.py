"""The hooks: models by name, `golem-host check` and `models`, what is told of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golem_host.api import ModelFileError
from golem_host.cli import main
from golem_host.config import Settings
from golem_host.http.models import shown
from golem_host.testing.inprocess import settings_of
from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_bert import tiny_bert_directory, tiny_bert_gguf
from golem_host.testing.tiny_nomic_bert import tiny_nomic_gguf
from golem_host_embed import plugin
from golem_host_embed.checkpoint import open_checkpoint
from golem_host_embed.model import EmbedModel


def settings(folder: Path, *models: str) -> Settings:
    return settings_of(folder, {"embed-model": models} if models else {}, plugin.golem_settings())


def test_models_by_name(tmp_path: Path) -> None:
    tiny_bert_directory(tmp_path / "MiniLM")
    tiny_nomic_gguf(tmp_path / "nomic.Q8_0.gguf")
    tiny_bert_directory(tmp_path / "ranker", classifier=True)
    given = settings(tmp_path, "MiniLM", "text=nomic.Q8_0", str(tmp_path / "ranker"))
    minilm, nomic, ranker = plugin.golem_models(given)
    assert [model.name for model in (minilm, nomic, ranker)] == ["MiniLM", "text", "ranker"]
    assert [model.kind for model in (minilm, nomic, ranker)] == ["embed", "embed", "rerank"]
    assert [model.format for model in (minilm, nomic)] == ["safetensors", "gguf"]
    assert (minilm.aliases, nomic.aliases) == ((), ("nomic.Q8_0.gguf",))
    assert (minilm.capabilities, ranker.capabilities) == (("embedding",), ("rerank",))
    assert (minilm.family, nomic.family) == ("bert", "nomic-bert-moe")
    assert (minilm.context_length, minilm.embedding_length, minilm.quantization) == (128, 64, "F32")
    assert minilm.parameter_count == sum(t.elements for t in open_checkpoint(minilm.path).tensors.values())
    assert minilm.describe(given) == "texts of up to 128 tokens"
    assert plugin.golem_models(settings(tmp_path)) == []


def test_a_model_that_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="^missing: neither here nor in the model folder"):
        plugin.golem_models(settings(tmp_path, "missing"))
    with pytest.raises(ModelFileError, match="missing: cannot be opened"):
        plugin.golem_models(settings(tmp_path, "folder/missing"))
    with pytest.raises(ModelFileError, match="encoders served: bert, nomic-bert-moe"):
        plugin.golem_models(settings(tmp_path, str(tiny_gguf(tmp_path / "chat.gguf"))))


def test_tensors_that_do_not_fit(tmp_path: Path) -> None:
    path = tiny_bert_gguf(tmp_path / "bert.gguf", metadata={"bert.block_count": 3})
    with pytest.raises(ModelFileError, match=r"tensor 'blk\.2\.attn_q\.weight' is missing"):
        plugin.golem_models(settings(tmp_path, str(path)))
    path = tiny_bert_gguf(tmp_path / "rank.gguf", metadata={"bert.pooling_type": 4})
    with pytest.raises(ModelFileError, match=r"tensor 'cls\.output\.weight' is missing"):
        plugin.golem_models(settings(tmp_path, str(path)))


@pytest.mark.parametrize("verbose", [False, True])
def test_show(tmp_path: Path, verbose: bool) -> None:
    for path in (tiny_bert_directory(tmp_path / "bert"), tiny_bert_gguf(tmp_path / "bert.gguf")):
        found = shown(EmbedModel(path), verbose)
        assert found["capabilities"] == ["embedding"]
        assert found["details"]["family"] == "bert"
        info = found["model_info"]
        assert (info["general.architecture"], info["bert.context_length"], info["bert.embedding_length"]) == (
            "bert", 128, 64
        )  # fmt: skip
        assert ("tensors" in found) == verbose
        json.dumps(found, allow_nan=False)


def report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOLEM_HOME", str(tmp_path))
    return tmp_path


def test_check(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, family in (
        (tiny_bert_directory(home / "bert"), "bert"),
        (tiny_bert_gguf(home / "bert.gguf"), "bert"),
        (tiny_nomic_gguf(home / "nomic.gguf"), "nomic-bert-moe"),
    ):
        code, found = report(capsys, "check", str(path))
        [answer] = found["plugins"]
        assert (code, found["served"]) == (0, True)
        assert (answer["plugin"], answer["family"], answer["setting"]) == ("embed", family, "embed-model")
        assert answer["rows"]["answers"] == "embeddings"
        assert answer["rows"]["vector"] == "64 numbers, mean pooling"
        assert answer["memory"] > 0
    code, found = report(capsys, "check", str(tiny_bert_directory(home / "rank", classifier=True)))
    assert found["plugins"][0]["rows"]["answers"] == "reranking"


def test_check_of_what_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_bert_directory(home / "bert", config={"hidden_act": "silu"})
    code, found = report(capsys, "check", str(path))
    assert (code, found["served"]) == (1, False)
    assert "'hidden_act' is 'silu'" in found["plugins"][0]["problems"][0]
    code, found = report(capsys, "check", str(tiny_gguf(home / "chat.gguf")))
    assert [answer["plugin"] for answer in found["plugins"]] == ["chat"]


def test_check_of_a_tokenizer_that_cannot_be_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_bert_directory(home / "bert")
    (path / "tokenizer.json").write_text("{}")
    code, found = report(capsys, "check", str(path))
    assert code == 1
    assert "is no tokenizer" in found["plugins"][0]["problems"][0]


def test_models_of_the_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_bert_directory(home / "bert")
    tiny_nomic_gguf(home / "nomic.gguf")
    code, entries = report(capsys, "models", "--embed-model", "small=bert")
    assert code == 0
    assert {(entry["name"], entry["plugin"], entry["served"]) for entry in entries} == {
        ("small", "embed", True),
        ("nomic", "embed", False),
    }
