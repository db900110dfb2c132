"""Queries, keys and values in one matrix: every family takes it, with the bits of three."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from family_checks import FLOAT_TOLERANCE, check_float_logits, random_tokens
from family_forward import forward
from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny import ARCHITECTURES, tiny_gguf
from golem_host.weights.gguf import GgufError, open_gguf
from golem_host_chat.families import family_of
from oracle_client import Oracle
from test_family_gemma4 import TOLERANCE as GEMMA4_TOLERANCE

TOKENS = random_tokens(40)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equals_three_matrices(tmp_path: Path, kernels: CpuBackend, architecture: str) -> None:
    three, one = (
        forward(tiny_gguf(tmp_path / f"{fused}.gguf", architecture, fused=fused, quantization="Q8_0"), TOKENS, kernels)[
            "logits"
        ]
        for fused in (False, True)
    )
    np.testing.assert_array_equal(one, three)


@pytest.mark.oracle
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equals_llama_cpp(tmp_path: Path, oracle: Oracle, kernels: CpuBackend, architecture: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", architecture, fused=True)
    check_float_logits(path, oracle, kernels, TOKENS, GEMMA4_TOLERANCE if architecture == "gemma4" else FLOAT_TOLERANCE)


@pytest.mark.oracle
def test_biases_beside_it(tmp_path: Path, oracle: Oracle, kernels: CpuBackend) -> None:
    random = np.random.default_rng(3)
    extra = {
        f"blk.0.attn_{part}.bias": random.standard_normal(size) for part, size in (("q", 64), ("k", 32), ("v", 32))
    }
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", fused=True, extra_tensors=extra)
    check_float_logits(path, oracle, kernels, TOKENS)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            {"blk.0.attn_qkv.bias": np.ones(64)},
            r"'blk.0.attn_qkv.bias' has shape \[64\], the metadata asks for \[128\]",
        ),
        (
            {"blk.0.attn_qkv.bias": np.ones(128), "blk.0.attn_qkv.scale": np.ones(1)},
            r"'blk.0.attn_qkv.bias\[0:64\]' and 'blk.0.attn_qkv.scale' together",
        ),
    ],
)
def test_refused(tmp_path: Path, extra: dict, message: str) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", fused=True, extra_tensors=extra)
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=message):
        family_of(gguf)
