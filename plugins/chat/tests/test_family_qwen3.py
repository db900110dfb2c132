"""The qwen3 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

from __future__ import annotations

from pathlib import Path

import pytest

from family_checks import (
    check_float_logits,
    check_greedy,
    check_layers,
    check_quantized_logits,
    check_tokens,
    random_tokens,
)
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host_chat.families import family_of
from oracle_client import Oracle

TOKENS = random_tokens(48)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="tied"),
        pytest.param({"tied": False, "layers": 4, "kv_heads": 1}, id="own-head"),
        pytest.param({"head_width": 16}, id="narrow-heads"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "qwen3", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_a_model_in_three_files(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", shards=3)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K", "MXFP4", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", width=256, quantization=name)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.oracle
def test_yarn(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    metadata = {
        "qwen3.rope.scaling.type": "yarn",
        "qwen3.rope.scaling.factor": 4.0,
        "qwen3.rope.scaling.original_context_length": 64,
    }
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", metadata=metadata)
    check_float_logits(path, oracle, each_backend, random_tokens(120))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({"qwen3.pooling_type": 3}, "pooling_type"), ({"qwen3.attention.key_length": 16}, "blk.0.attn_q.weight")],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
