"""Products with every stored type against llama.cpp's own: the first norm and value projection of a tiny checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from golem_host import ops
from golem_host.devices.cpu import CpuBackend
from golem_host.kernels import library
from golem_host.ops import Recording
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights.gguf import open_gguf
from oracle_client import Oracle

TOKENS = np.random.default_rng(1).integers(0, 256, 33).tolist()
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
TYPES += ["IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "Q1_0", "Q2_0"]
TYPES += ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]

EXACT = 1e-6
"""Relative: the same rounding of activations and the same integers, float32 sums in another order."""
TWIN_MINIMUM = 2e-3
"""The twin of Q4_1 and Q5_1 multiplies minimums by the sum of rounded activations, ggml by that sum rounded to half."""
TWIN_HALF = 2e-5
"""A norm that differs in its last bit may round an activation to the other half-precision neighbour."""


@pytest.mark.oracle
@pytest.mark.parametrize("native", [True, False], ids=["native", "twins"])
@pytest.mark.parametrize("name", TYPES)
def test_value_projection(tmp_path: Path, oracle: Oracle, name: str, native: bool) -> None:
    if native and library.load() is None:
        pytest.skip("the native kernels were not built")
    path = tiny_gguf(tmp_path / "tiny.gguf", "llama", width=256, layers=1, quantization=name)
    expected = oracle.llama("layers", path, tokens=TOKENS, watch=["attn_norm", "Vcur"])
    norm, values = project(path, CpuBackend(threads=2, native=native))
    assert apart(norm, expected["attn_norm-0"]) < EXACT
    limits = {} if native else {"Q4_1": TWIN_MINIMUM, "Q5_1": TWIN_MINIMUM, "F16": TWIN_HALF, "BF16": TWIN_HALF}
    assert apart(values, expected["Vcur-0"].reshape(values.shape)) < limits.get(name, EXACT)


def project(path: Path, backend: CpuBackend) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The first block's normalised input and its values."""
    with open_gguf(path) as gguf:
        recording = Recording(keep_names=True)
        tokens = recording.input("tokens", recording.axis("columns", len(TOKENS)))
        embedded = ops.rows(gguf.tensors["token_embd.weight"], tokens)
        norm = ops.rms_norm(embedded, gguf.tensors["blk.0.attn_norm.weight"], 1e-5).named("norm")
        recording.output("values", ops.linear(norm, gguf.tensors["blk.0.attn_v.weight"]))
        program = backend.compile(recording)
        program.inputs["tokens"][:] = TOKENS
        program.run({"columns": len(TOKENS)})
        return program.read("norm"), program.output("values").copy()


def apart(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """Root mean square of the difference over that of `expected`."""
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))
