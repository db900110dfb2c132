"""The llama family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
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
YARN = {
    "llama.rope.scaling.type": "yarn",
    "llama.rope.scaling.factor": 4.0,
    "llama.rope.scaling.original_context_length": 64,
}


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="tied"),
        pytest.param({"tied": False, "layers": 4}, id="own-head"),
        pytest.param({"rope_factors": True, "tokenizer": "spm"}, id="rope-factors"),
        pytest.param({"kv_heads": 4}, id="no-groups"),
        pytest.param({"kv_heads": 1, "feed_forward": 96}, id="one-group"),
        pytest.param(
            {"metadata": {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}}, id="linear-rope"
        ),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "llama", **options), oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"experts": 8, "experts_used": 2}, id="two-of-eight"),
        pytest.param({"experts": 4, "experts_used": 1, "tied": False, "feed_forward": 96}, id="one-of-four"),
    ],
)
def test_layers_of_mixtral(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, options: dict) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", tokenizer="spm", **options)
    check_layers(path, oracle, each_backend, TOKENS)
    check_float_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_logits_of_quantized_mixtral(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, name: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", experts=8, width=256, quantization=name)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "types",
    [
        pytest.param({"quantization": "Q4_1", "types": {"token_embd": "Q8_0"}}, id="smollm2-mix"),
        pytest.param({"quantization": "Q4_K", "types": {"token_embd": "Q6_K", "ffn_down": "Q6_K"}}, id="q4_k_m-mix"),
        *(
            pytest.param({"quantization": name}, id=name)
            for name in ("F16", "BF16", "Q4_0", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS")
        ),
    ],
)
def test_logits_of_quantized_weights(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, types: dict) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", width=256, **types)
    check_quantized_logits(path, oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("tokenizer", ["bpe", "spm"])
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, tokenizer: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", tokenizer=tokenizer)
    check_tokens(path, oracle)
    check_greedy(path, oracle, each_backend)


@pytest.mark.oracle
def test_yarn(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", head_width=32, metadata=YARN)
    check_float_logits(path, oracle, each_backend, random_tokens(120))


@pytest.mark.oracle
def test_biases_and_scales_are_applied(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend) -> None:
    random = np.random.default_rng(3)
    extra = {
        "blk.0.attn_q.bias": random.standard_normal(64),
        "blk.0.attn_k.bias": random.standard_normal(32),
        "blk.1.attn_v.bias": random.standard_normal(32),
        "blk.1.ffn_down.bias": random.standard_normal(64),
        "blk.0.attn_output.scale": np.array([0.5]),
    }
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", extra_tensors=extra)
    check_float_logits(path, oracle, each_backend, TOKENS)


def test_the_head_is_the_embedding_only_when_the_file_has_no_other(tmp_path: Path, each_backend: CpuBackend) -> None:
    """Field report 43."""
    tied, own = (
        forward(tiny_gguf(tmp_path / f"{tied}.gguf", "llama", tied=tied), TOKENS, each_backend)
        for tied in (True, False)
    )
    assert apart(own["result_norm"], tied["result_norm"]) == 0
    assert apart(own["logits"], tied["logits"]) > 0.5


def test_rope_factors_change_the_answer(tmp_path: Path, each_backend: CpuBackend) -> None:
    plain, factors = (
        forward(tiny_gguf(tmp_path / f"{on}.gguf", "llama", rope_factors=on), TOKENS, each_backend)
        for on in (False, True)
    )
    assert apart(factors["logits"], plain["logits"]) > 0.1


def test_an_unknown_tensor_is_named_once_and_skipped(
    tmp_path: Path, each_backend: CpuBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """Field report 46."""
    plain = tiny_gguf(tmp_path / "plain.gguf", "llama")
    extra = tiny_gguf(tmp_path / "extra.gguf", "llama", extra_tensors={"blk.0.attn_mystery.weight": np.ones((4, 4))})
    with caplog.at_level(logging.WARNING):
        expected = forward(plain, TOKENS, each_backend)["logits"]
        assert not caplog.records
        for _ in range(2):
            np.testing.assert_array_equal(forward(extra, TOKENS, each_backend)["logits"], expected)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "blk.0.attn_mystery.weight" in caplog.text and "extra.gguf" in caplog.text


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"llama.expert_count": 8}, "expert_used_count"),
        ({"llama.expert_count": 8, "llama.expert_used_count": 2}, "blk.0.ffn_gate_inp.weight"),
        ({"llama.expert_shared_count": 1}, "expert_shared_count"),
        ({"llama.expert_count": [0, 0]}, "expert_count"),
        ({"llama.expert_count": "8"}, "expert_count"),
        ({"llama.rope.scaling.type": "longrope"}, "longrope"),
        ({"llama.rope.dimension_count": 8}, "rope"),
        ({"llama.attention.head_count_kv": 3}, "3 key heads"),
        ({"llama.block_count": 3}, "blk.2.attn_q.weight"),
        ({"llama.embedding_length": 128, "llama.rope.dimension_count": 32}, "token_embd.weight"),
        ({"llama.feed_forward_length": 256}, "blk.0.ffn_gate.weight"),
        ({"llama.context_length": None}, "llama.context_length"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "llama.attention.layer_norm_rms_epsilon"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", metadata=metadata)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


@pytest.mark.real
def test_smollm2_answers_as_llama_cpp(smollm2_path: Path, kernels: CpuBackend) -> None:
    recorded = truth("smollm2-greedy.json", smollm2_path)
    check_recorded_tokens(recorded, smollm2_path)
    check_recorded_logits(recorded, smollm2_path, kernels)
    check_recorded_greedy(recorded, smollm2_path, kernels)


@pytest.mark.oracle
@pytest.mark.real
@pytest.mark.slow
def test_smollm2_is_as_exact_as_llama_cpp(smollm2_path: Path, oracle: Oracle, kernels: CpuBackend) -> None:
    check_as_exact_as_llama_cpp(truth("smollm2-greedy.json", smollm2_path), smollm2_path, oracle, kernels)
