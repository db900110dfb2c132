"""The qwen35moe family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

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
        pytest.param({"tied": False, "kv_heads": 1, "delta_net": {"fused": True, "predictors": 1}}, id="fused"),
        pytest.param({"experts": 32, "experts_used": 8, "feed_forward": 48}, id="many-narrow"),
        pytest.param({"experts": 4, "experts_used": 1}, id="one-of-four"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "qwen35moe", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_the_width_of_experts_alone_is_enough(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35moe", metadata={"qwen35moe.feed_forward_length": None})
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35moe", width=256, quantization=name, delta_net={"interval": 2})
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35moe", delta_net={"predictors": 1})
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"qwen35moe.expert_count": None}, "qwen35moe.expert_count"),
        ({"qwen35moe.expert_count": 9}, "blk.0.ffn_gate_inp.weight"),
        ({"qwen35moe.expert_used_count": 9}, "'qwen35moe.expert_used_count' is 9; a number from 1 to 8"),
        ({"qwen35moe.expert_feed_forward_length": 96}, "blk.0.ffn_gate_exps.weight"),
        ({"qwen35moe.expert_shared_feed_forward_length": 96}, "blk.0.ffn_gate_shexp.weight"),
        ({"qwen35moe.expert_weights_scale": 2.5}, "expert_weights_scale"),
        ({"qwen35moe.pooling_type": 3}, "pooling_type"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35moe", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
