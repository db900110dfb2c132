"""The gemma4 family, against transformers (layer by layer) and llama.cpp (tokens, logits, greedy text)."""

from __future__ import annotations

from dataclasses import replace
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
from golem_host.testing.tiny_gemma4 import DENSE, MIXTURE, Gemma4Shape
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.passes import Passes
from oracle_client import Oracle

TOKENS = random_tokens(48)
E2B = Gemma4Shape()
SHAPES = {"e2b": E2B, "12b": DENSE, "26b": MIXTURE}
TOLERANCE = 2e-3
"""Logits on float32 weights against llama.cpp. Queries, keys and values are normalised to where a half-precision border
lies near, which sums in another order cross here and there; what crosses moves later layers. llama.cpp and transformers
lie 1e-3 apart; a wrong term costs 1e-2 or more.
"""


@pytest.mark.oracle
@pytest.mark.parametrize(
    "shape",
    [
        *(pytest.param(shape, id=name) for name, shape in SHAPES.items()),
        pytest.param(replace(E2B, shared=0, tied=False, window=8), id="nothing-shared"),
        pytest.param(replace(MIXTURE, fused=False, used=2, kv_heads=4), id="gate-and-up-apart"),
    ],
)
def test_layers(tmp_path: Path, oracle: Oracle, each_backend: CpuBackend, shape: Gemma4Shape) -> None:
    check_layers(tiny_gguf(tmp_path / "tiny.gguf", "gemma4", gemma4=shape), oracle, each_backend, TOKENS)


@pytest.mark.oracle
@pytest.mark.parametrize("name", SHAPES)
def test_tokens_and_greedy_text(tmp_path: Path, oracle: Oracle, kernels: CpuBackend, name: str) -> None:
    seed = {"e2b": 0, "12b": 4, "26b": 4}[name]  # at others the likeliest two lie within 0.1 of each other somewhere
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma4", gemma4=SHAPES[name], seed=seed)
    check_tokens(path, oracle)
    check_greedy(path, oracle, kernels)


@pytest.mark.oracle
def test_a_prompt_far_longer_than_the_window_and_its_ring(tmp_path: Path, oracle: Oracle, kernels: CpuBackend) -> None:
    """700 positions over a ring of 576 cells, read in pieces that cross its end; shared layers read it, too."""
    shape = replace(E2B, window=40, context=1024)
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma4", gemma4=shape)
    check_layers(path, oracle, kernels, random_tokens(700), chunk=150)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        pytest.param(
            E2B,
            {"metadata": {"gemma4.final_logit_softcapping": None, "gemma4.rope.scaling.factor": 1.0}},
            id="usual-cap",
        ),
        pytest.param(replace(E2B, per_layer=0), {}, id="shared-without-embeddings"),
        pytest.param(replace(MIXTURE, sliding=(True, False, True, True, False), window=8), {}, id="another-pattern"),
        pytest.param(E2B, {"extra": True}, id="projections-of-shared-layers"),
    ],
)
def test_float_logits(tmp_path: Path, oracle: Oracle, kernels: CpuBackend, shape: Gemma4Shape, options: dict) -> None:
    if options.pop("extra", False):
        unused = {"attn_k": (64, 64), "attn_v": (64, 64), "attn_k_norm": (32,)}
        options["extra_tensors"] = {f"blk.6.{name}.weight": np.ones(size, np.float32) for name, size in unused.items()}
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma4", gemma4=shape, **options)
    check_float_logits(path, oracle, kernels, TOKENS, TOLERANCE)


@pytest.mark.oracle
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "types",
    [
        pytest.param({"quantization": "Q4_K", "types": {"token_embd": "Q6_K", "ffn_down": "Q6_K"}}, id="Q4_K_M"),
        pytest.param({"quantization": "Q4_0", "types": {"token_embd": "Q6_K"}}, id="qat"),
        pytest.param({"quantization": "BF16"}, id="BF16"),
    ],
)
def test_logits_of_quantized_weights(
    tmp_path: Path, oracle: Oracle, kernels: CpuBackend, name: str, types: dict
) -> None:
    shape = replace(
        SHAPES[name], width=256, feed_forward=256, head_width=128, per_layer=256 if SHAPES[name].per_layer else 0,
        sliding=(True, False, True, False), shared=2 if SHAPES[name].shared else 0, expert_width=256,
    )  # fmt: skip
    types["types"] = types.get("types", {}) | {"per_layer_model_proj": "BF16"}
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma4", gemma4=shape, **types)
    check_quantized_logits(path, oracle, kernels, TOKENS)


def test_layers_that_remember_nothing_read_only_the_rows_that_are_wanted(tmp_path: Path, kernels: CpuBackend) -> None:
    with open_gguf(tiny_gguf(tmp_path / "tiny.gguf", "gemma4")) as gguf:
        passes = Passes(family_of(gguf), kernels, slots=2, context=64)
        assert len(passes.memory.caches) == 5
        axes = {name: ref.axis.name for name, ref in passes._record(8).names.items()}
    assert {axes[f"l_out-{layer}"] for layer in range(4)} == {"columns"}
    assert {axes[f"l_out-{layer}"] for layer in (4, 5, 6)} == {"outputs"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"attention.sliding_window_pattern": None}, "sliding_window_pattern' is missing"),
        ({"attention.sliding_window_pattern": 6}, "sliding_window_pattern': expected an array"),
        ({"attention.sliding_window_pattern": [True] * 6}, "each of 7 layers"),
        ({"attention.sliding_window": 0}, "sliding_window' is 0"),
        ({"attention.shared_kv_layers": 7}, "shared_kv_layers' is 7"),
        ({"attention.shared_kv_layers": 3}, "shared_kv_layers': layer 4 reads .* of layer 3, which is not a full one"),
        ({"attention.shared_kv_layers": 6}, "shared_kv_layers': layer 1 reads .* of layer -1"),
        ({"attention.head_count_kv": [2, 2, 2, 3, 2, 2, 2]}, "4 query heads of layer 3 .* 3 key heads"),
        ({"attention.head_count_kv": [2, 2]}, "head_count_kv' is an array of 2 int32; .* 7 layers"),
        ({"attention.value_length": 16}, "value_length' is 16, keys have 32"),
        ({"attention.value_length_swa": 32}, "value_length_swa' is 32, keys have 16"),
        ({"feed_forward_length": [64] * 6 + [-1]}, "feed_forward_length' is -1"),
        ({"rope.dimension_count": 16}, "rope.dimension_count' is 16"),
        ({"rope.scaling.factor": 8.0}, "rope.scaling.factor' is 8.0"),
        ({"rope.freq_base_swa": 0.0}, "rope.freq_base_swa' is 0"),
        ({"final_logit_softcapping": -30.0}, "final_logit_softcapping' is -30"),
        ({"nextn_predict_layers": 1}, "nextn_predict_layers' is 1"),
        ({"embedding_length_per_layer_input": 16}, "per_layer_token_embd.weight' has shape"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, metadata: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma4", metadata={f"gemma4.{key}": v for key, v in metadata.items()})
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)


@pytest.mark.parametrize(
    ("tensor", "size", "message"),
    [
        ("blk.1.ffn_down_exps.bias", (8, 64), "ffn_down_exps.bias': this variant of gemma4 is not served"),
        ("blk.1.ffn_gate_up_exps.scale", (8,), "ffn_gate_up_exps.scale': this variant"),
    ],
)
def test_expert_tensors_that_are_not_computed_are_refused(
    tmp_path: Path, tensor: str, size: tuple[int, ...], message: str
) -> None:
    extra = {tensor: np.ones(size, np.float32)}
    path = tiny_gguf(tmp_path / "tiny.gguf", "gemma4", gemma4=MIXTURE, extra_tensors=extra)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
