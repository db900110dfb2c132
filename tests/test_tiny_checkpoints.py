"""Tiny checkpoints: the same seed writes the same bytes, and what cannot be written is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from golem_host.testing.tiny import ARCHITECTURES, tiny_gguf
from golem_host.text.tokenizer import tokenizer_from_gguf
from golem_host.weights.gguf import open_gguf


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_seed_decides_every_byte(tmp_path: Path, architecture: str) -> None:
    first, second, other = (
        tiny_gguf(tmp_path / f"{i}.gguf", architecture, seed=seed, width=256, quantization="Q4_K").read_bytes()
        for i, seed in enumerate((0, 0, 1))
    )
    assert first == second != other


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_files_hold_a_vocabulary_that_gives_texts_back(tmp_path: Path, architecture: str) -> None:
    with open_gguf(tiny_gguf(tmp_path / "tiny.gguf", architecture)) as gguf:
        tokenizer = tokenizer_from_gguf(gguf)
        text = "Hello world: the cat, \u4f60\u597d \U0001f600\n"
        assert tokenizer.decode(tokenizer.encode(text, add_special=False)).decode() == text
        assert len(tokenizer.encode(" the world", add_special=False)) == 2
        assert len(tokenizer.vocab) == gguf.tensors["token_embd.weight"].shape[0]


def test_a_split_checkpoint_is_named_as_split_files_are(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", shards=3)
    assert path.name == "tiny-00001-of-00003.gguf"
    with open_gguf(path) as split, open_gguf(tiny_gguf(tmp_path / "whole.gguf", "qwen3")) as whole:
        assert len(split.paths) == 3
        assert {t.name: t.data.tobytes() for t in split.tensors.values()} == {
            t.name: t.data.tobytes() for t in whole.tensors.values()
        }


def test_metadata_is_added_replaced_and_removed(tmp_path: Path) -> None:
    metadata = {"general.name": "other", "general.license": None, "general.sampling.top_k": 7, "general.alignment": 64}
    with open_gguf(tiny_gguf(tmp_path / "tiny.gguf", "llama", metadata=metadata)) as gguf:
        assert gguf.metadata["general.name"] == "other" and gguf.metadata["general.sampling.top_k"] == 7
        assert "general.license" not in gguf.metadata and gguf.metadata["general.alignment"] == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "mamba"}, "unknown architecture 'mamba'"),
        ({"architecture": "llama", "quantization": "Q9_9"}, "unknown ggml type 'Q9_9'"),
        ({"architecture": "llama", "quantization": "Q4_K"}, "whole blocks of 256, got 64"),
        ({"architecture": "gemma3", "rope_factors": True}, "llama architecture"),
        ({"architecture": "gemma3", "tokenizer": "bpe"}, "no tiny 'bpe' tokenizer"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny_gguf(tmp_path / "tiny.gguf", **options)
