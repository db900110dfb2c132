"""The qwen35 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

from __future__ import annotations

import logging
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
        pytest.param({"tied": False, "layers": 5, "kv_heads": 1}, id="own-head"),
        pytest.param({"delta_net": {"key_heads": 1, "value_heads": 3, "state": 24, "taps": 3}}, id="odd-heads"),
        pytest.param({"delta_net": {"key_heads": 4, "interval": 2}}, id="a-key-for-each-value"),
        pytest.param({"delta_net": {"predictors": 1}}, id="predictor"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "qwen35", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_layers_of_a_prompt_in_pieces(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35")
    check_layers(path, oracle, each_backend, random_tokens(150), chunk=31)


@pytest.mark.oracle
def test_told_which_layers_are_recurrent(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    told = {"qwen35.attention.recurrent_layers": [True, False] * 2}
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35", delta_net={"interval": 2}, metadata=told)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_a_model_in_three_files(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35", shards=3, delta_net={"predictors": 1})
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K", "F16", "BF16", "Q1_0", "Q2_0"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35", width=256, quantization=name, delta_net={"interval": 2})
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


def test_blocks_that_predict_further_tokens_are_skipped_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35", delta_net={"predictors": 1})
    with caplog.at_level(logging.WARNING), open_gguf(path) as gguf:
        family = family_of(gguf)
    assert not caplog.records
    assert len(family.caches()) == 1 and len(family.states()) == 2 * 3


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"qwen35.ssm.conv_kernel": None}, "'qwen35.ssm.conv_kernel' is missing"),
        ({"qwen35.ssm.conv_kernel": 1}, "'qwen35.ssm.conv_kernel' is 1; a number from 2"),
        ({"qwen35.ssm.conv_kernel": 3}, "blk.0.ssm_conv1d.weight"),
        ({"qwen35.ssm.state_size": 512}, "'qwen35.ssm.state_size' is 512; a number from 1 to 256"),
        ({"qwen35.ssm.group_count": 3}, "'qwen35.ssm.group_count' \\(3\\) does not divide"),
        ({"qwen35.ssm.time_step_rank": 0}, "'qwen35.ssm.time_step_rank' is 0"),
        ({"qwen35.ssm.inner_size": 65}, "'qwen35.ssm.inner_size' is 65; 4 heads have 64 values"),
        ({"qwen35.rope.dimension_sections": None}, "'qwen35.rope.dimension_sections' is missing"),
        ({"qwen35.rope.dimension_sections": [3, 3]}, "'qwen35.rope.dimension_sections' is"),
        ({"qwen35.rope.dimension_sections": [30, 3, 2, 0]}, "deals out 35 pairs of 8"),
        ({"qwen35.rope.dimension_sections": [3.0, 3.0, 2.0]}, "three or four counts"),
        ({"qwen35.nextn_predict_layers": 4}, "'qwen35.nextn_predict_layers' is 4; a number from 0 to 3"),
        ({"qwen35.full_attention_interval": 0}, "'qwen35.full_attention_interval' is 0"),
        ({"qwen35.full_attention_interval": 2}, "blk.1.attn_qkv.weight"),
        ({"qwen35.attention.recurrent_layers": [True] * 3}, "holds 3 bool; 4 truth values"),
        ({"qwen35.attention.recurrent_layers": [1, 1, 1, 0]}, "4 truth values are expected"),
        ({"qwen35.attention.value_length": 16}, "'qwen35.attention.value_length' is 16, keys have 32"),
        ({"qwen35.expert_count": 4}, "'qwen35.expert_count' is 4"),
        ({"qwen35.pooling_type": 3}, "pooling_type"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "qwen35")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"blk.2.ssm_a", b"blk.2.ssm_b"))
    with open_gguf(path) as gguf, pytest.raises(GgufError, match="tensor 'blk.2.ssm_a' is missing"):
        family_of(gguf)
    assert np.char.count(data.decode("latin-1"), "blk.2.ssm_a")
