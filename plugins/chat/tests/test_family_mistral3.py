"""The mistral3 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

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
        pytest.param({"tied": False, "layers": 3, "kv_heads": 1, "feed_forward": 96}, id="own-head"),
        pytest.param({"window": 5, "head_width": 32}, id="many-contexts"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "mistral3", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="ministral-3"),
        pytest.param({"mistral3.rope.scaling.yarn_log_multiplier": None}, id="magnitude"),
        pytest.param({"mistral3.rope.scaling.yarn_log_multiplier": 0.7}, id="part-of-the-magnitude"),
        pytest.param({"mistral3.attention.temperature_scale": None}, id="no-temperature"),
        pytest.param({"mistral3.rope.scaling.yarn_beta_fast": 4.0}, id="another-ramp"),
        pytest.param({"mistral3.rope.scaling.type": None, "mistral3.rope.scaling.factor": None}, id="small-3.1"),
    ],
)
def test_logits(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, metadata: dict) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "mistral3", head_width=32, metadata=metadata)
    check_float_logits(path, oracle, each_backend, random_tokens(120))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K"])
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "mistral3", width=256, quantization=name)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "mistral3")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"mistral3.expert_count": 8}, "expert_count"),
        ({"mistral3.rope.dimension_count": 8}, "rope.dimension_count' is 8 of 16"),
        ({"mistral3.block_count": 3}, "blk.2.attn_q.weight"),
        ({"mistral3.rope.scaling.yarn_log_multiplier": -1.0}, "yarn_log_multiplier' is -1.0"),
        ({"mistral3.rope.scaling.yarn_log_multiplier": float("nan")}, "yarn_log_multiplier': expected a finite"),
        ({"mistral3.attention.temperature_scale": float("inf")}, "temperature_scale': expected a finite"),
        ({"mistral3.rope.scaling.original_context_length": 0}, "original_context_length' is 0"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "mistral3", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
