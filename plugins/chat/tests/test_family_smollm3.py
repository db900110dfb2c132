"""The smollm3 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

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
        pytest.param({"tied": False, "layers": 8, "kv_heads": 1, "feed_forward": 96}, id="two-unrotated"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "smollm3", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_logits(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    check_float_logits(tiny_gguf(tmp_path / "tiny.gguf", "smollm3"), oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "smollm3", width=256, quantization=name)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "smollm3")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"smollm3.expert_count": 8}, "expert_count"),
        ({"smollm3.rope.dimension_count": 8}, "rope.dimension_count' is 8 of 16"),
        ({"smollm3.block_count": 6}, "blk.5.attn_q.weight"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "smollm3", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
