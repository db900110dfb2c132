"""The gemma3 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

from __future__ import annotations

from pathlib import Path

import pytest

from family_checks import (
    check_as_exact_as_llama_cpp,
    check_float_logits,
    check_greedy,
    check_layers,
    check_quantized_logits,
    check_recorded_greedy,
    check_recorded_logits,
    check_recorded_tokens,
    check_tokens,
    random_tokens,
    truth,
)
from family_forward import apart, forward
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
        pytest.param({}, id="window-in-prompt"),
        pytest.param({"tied": False, "kv_heads": 1, "head_width": 16}, id="own-head"),
        pytest.param({"metadata": {"gemma3.attention.sliding_window_pattern": 2}, "layers": 4}, id="every-second-full"),
        pytest.param({"metadata": {"gemma3.final_logit_softcapping": 8.0}, "layers": 2}, id="capped-logits"),
        pytest.param(
            {"metadata": {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}}, id="linear-rope"
        ),
        pytest.param({"metadata": {"gemma3.rope.freq_base_swa": 500.0}, "layers": 2}, id="sliding-base"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "gemma3", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_a_prompt_far_longer_than_the_window_and_its_ring(
    tmp_path: Path, oracle: Oracle, each_backend: CpuBackend
) -> None:
    """700 positions over a ring of 576 cells, read in pieces that cross its end."""
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma3", context=1024, window=40)
    check_layers(path, oracle, each_backend, random_tokens(700), chunk=150)


@pytest.mark.oracle
def test_queries_of_the_27b_model_are_scaled_by_its_width(
    tmp_path: Path, oracle: Oracle, each_backend: CpuBackend
) -> None:
    """62 layers tell llama.cpp, too, that this is the 27B model."""
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma3", layers=62, width=32, head_width=32, feed_forward=32)
    tokens = random_tokens(12)
    found = forward(path, tokens, each_backend)["logits"]
    assert apart(found, oracle.llama("logits", path, tokens=tokens, every=True)["logits"]) < 0.05


@pytest.mark.oracle
@pytest.mark.parametrize(
    "types",
    [
        pytest.param({"quantization": "Q5_0", "types": {"token_embd": "Q8_0", "ffn_down": "Q4_K"}}, id="270m-mix"),
        pytest.param({"quantization": "Q4_0", "types": {"token_embd": "Q6_K"}}, id="qat-mix"),
        pytest.param({"quantization": "BF16"}, id="BF16"),
        pytest.param({"quantization": "Q8_0"}, id="Q8_0"),
    ],
)
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, types: dict) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma3", width=256, layers=3, **types)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma3")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.oracle
def test_a_pattern_given_layer_by_layer(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    pattern = [True, False, True, True]
    metadata = {"gemma3.attention.sliding_window_pattern": pattern}
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma3", layers=4, window=8, metadata=metadata)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"gemma3.attention.sliding_window": 0}, "sliding_window' is 0"),
        ({"gemma3.attention.sliding_window": None}, "gemma3.attention.sliding_window"),
        ({"gemma3.attention.sliding_window_pattern": [True, False]}, "each of 7 layers"),
        ({"gemma3.attention.sliding_window_pattern": 0}, "pattern' is 0"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma3", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


@pytest.mark.real
def test_gemma3_270m_answers_as_llama_cpp(gemma3_path: Path, kernels: CpuBackend) -> None:
    recorded = truth("gemma3-270m-greedy.json", gemma3_path)
    check_recorded_tokens(recorded, gemma3_path)
    check_recorded_logits(recorded, gemma3_path, kernels)
    check_recorded_greedy(recorded, gemma3_path, kernels)


@pytest.mark.oracle
@pytest.mark.real
@pytest.mark.slow
def test_gemma3_270m_is_as_exact_as_llama_cpp(gemma3_path: Path, oracle: Oracle, kernels: CpuBackend) -> None:
    check_as_exact_as_llama_cpp(truth("gemma3-270m-greedy.json", gemma3_path), gemma3_path, oracle, kernels)
