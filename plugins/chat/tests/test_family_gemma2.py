"""The gemma2 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

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
        pytest.param({"kv_heads": 1, "head_width": 16, "window": 8}, id="one-kv-head"),
        pytest.param({"metadata": {"gemma2.final_logit_softcapping": 5.0}, "layers": 2}, id="capped-logits"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "gemma2", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({f"gemma2.{cap}_logit_softcapping": None for cap in ("attn", "final")}, id="usual-caps"),
        pytest.param({"gemma2.attention.sliding_window_pattern": [True, True, False, True]}, id="layer-by-layer"),
        pytest.param({"gemma2.attention.sliding_window_pattern": 4}, id="every-fourth-full"),
        pytest.param({"gemma2.rope.scaling.type": "linear", "gemma2.rope.scaling.factor": 4.0}, id="linear-rope"),
        pytest.param({"gemma2.rope.freq_base_swa": 500.0}, id="sliding-base"),
    ],
)
def test_float_logits(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, metadata: dict) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma2", window=8, metadata=metadata)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_queries_of_the_27b_model_are_scaled_by_its_width(
    tmp_path: Path, oracle: Oracle, each_backend: CpuBackend
) -> None:
    """46 layers tell llama.cpp, too, that this is the 27B model."""
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma2", layers=46, width=32, head_width=32, feed_forward=32)
    tokens = random_tokens(12)
    found = forward(path, tokens, each_backend)["logits"]
    assert apart(found, oracle.llama("logits", path, tokens=tokens, every=True)["logits"]) < 0.05


@pytest.mark.oracle
@pytest.mark.parametrize("quantization", ["Q4_0", "Q8_0", "BF16"])
def test_logits_of_quantized_weights(
    tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, quantization: str
) -> None:
    path = tiny_gguf(
        tmp_path / "tiny.gguf", "gemma2", width=256, layers=3, quantization=quantization, types={"token_embd": "Q6_K"}
    )
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma2")
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"gemma2.attention.sliding_window": 0}, "sliding_window' is 0"),
        ({"gemma2.attention.sliding_window_pattern": [True, False]}, "2 bool; .* each of 4 layers"),
        ({"gemma2.attention.sliding_window_pattern": True}, "pattern' is True"),
        ({"gemma2.attn_logit_softcapping": -1.0}, "attn_logit_softcapping' is -1"),
        ({"gemma2.final_logit_softcapping": float("nan")}, "final_logit_softcapping': expected a finite"),
        ({"gemma2.rope.freq_base_swa": 0.5}, "rope.freq_base_swa' is 0.5"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma2", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
