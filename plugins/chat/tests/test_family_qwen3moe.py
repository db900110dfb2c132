"""The qwen3moe family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

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
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host_chat.families import family_of
from oracle_client import Oracle

TOKENS = random_tokens(48)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="tied"),
        pytest.param({"tied": False, "layers": 3, "kv_heads": 1}, id="own-head"),
        pytest.param({"experts": 32, "experts_used": 8, "feed_forward": 48}, id="many-narrow"),
        pytest.param({"experts": 4, "experts_used": 1}, id="one-of-four"),
        pytest.param({"experts": 3, "experts_used": 3}, id="all"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_a_model_in_three_files(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe", shards=3)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_the_inner_width_follows_the_dense_one_where_it_is_not_told(
    tmp_path: Path, oracle: Oracle, each_backend: CpuBackend
) -> None:
    metadata = {"qwen3moe.expert_feed_forward_length": None, "qwen3moe.feed_forward_length": 3 * 64 + 2}
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe", feed_forward=64, metadata=metadata)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe", width=256, quantization=name)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"qwen3moe.expert_count": None}, "qwen3moe.expert_count"),
        ({"qwen3moe.expert_count": 0}, "'qwen3moe.expert_count' is 0"),
        ({"qwen3moe.expert_count": 1 << 17}, "'qwen3moe.expert_count' is 131072"),
        ({"qwen3moe.expert_count": 9}, "blk.0.ffn_gate_inp.weight"),
        ({"qwen3moe.expert_used_count": 0}, "'qwen3moe.expert_used_count' is 0"),
        ({"qwen3moe.expert_used_count": 9}, "'qwen3moe.expert_used_count' is 9; a number from 1 to 8"),
        ({"qwen3moe.expert_feed_forward_length": 0}, "'qwen3moe.expert_feed_forward_length' is 0"),
        ({"qwen3moe.expert_feed_forward_length": 96}, "blk.0.ffn_gate_exps.weight"),
        ({"qwen3moe.expert_shared_count": 1}, "expert_shared_count"),
        ({"qwen3moe.expert_weights_scale": 2.5}, "expert_weights_scale"),
        ({"qwen3moe.pooling_type": 3}, "pooling_type"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


@pytest.mark.parametrize("kind", ["bias", "scale"])
def test_experts_with_more_than_matrices_are_refused(tmp_path: Path, kind: str) -> None:
    extra = {f"blk.1.ffn_down_exps.{kind}": np.ones(8, np.float32)}
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen3moe", extra_tensors=extra)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=f"'blk.1.ffn_down_exps.{kind}'"):
        family_of(gguf)
