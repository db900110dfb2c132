"""The qwen2 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
from golem_host.testing.tiny_vocab import vocabulary
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host_chat.families import family_of
from oracle_client import Oracle

TOKENS = random_tokens(48)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="tied"),
        pytest.param({"tied": False, "layers": 3, "kv_heads": 1, "feed_forward": 96}, id="own-head"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "qwen2", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_yarn(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    metadata = {
        "qwen2.rope.scaling.type": "yarn",
        "qwen2.rope.scaling.factor": 4.0,
        "qwen2.rope.scaling.original_context_length": 64,
    }
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen2", width=128, metadata=metadata)
    check_float_logits(path, oracle, each_backend, random_tokens(120))


@pytest.mark.oracle
@pytest.mark.parametrize("tied", [True, False])
def test_a_bias_of_the_head(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, tied: bool) -> None:
    extra = {"output.bias": np.random.default_rng(4).standard_normal(len(vocabulary("qwen2", "bpe")))}
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen2", tied=tied, extra_tensors=extra)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_logits(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    check_float_logits(tiny_gguf(tmp_path / "tiny.gguf", "qwen2"), oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen2", width=256, quantization=name)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen2")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"qwen2.expert_count": 8}, "expert_count"),
        ({"qwen2.pooling_type": 3}, "pooling_type"),
        ({"qwen2.block_count": 3}, "blk.2.attn_q.weight"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen2", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
