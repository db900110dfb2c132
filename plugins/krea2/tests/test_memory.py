"""What a step takes whose blocks are read from the file: the memory of one block, and activations."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from golem_host.devices.cpu import CpuBackend
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_krea2 import TinyKrea2, dit_tensors, tiny_krea2_directory
from golem_host.testing.tiny_laya import stored
from golem_host_krea2 import dit, memory
from golem_host_krea2.checkpoint import Opened
from golem_host_krea2.folders import find_files
from golem_host_krea2.layer import layer_bytes
from krea2_checks import result

TOKENS, SIDE = 5, 4


def test_a_bfloat16_step_takes_one_block_and_activations(tmp_path: Path) -> None:
    sizes = TinyKrea2(width=384, ff_width=1024, heads=3, kv_heads=1, head_dim=128, layers=6)
    files = Opened(find_files(tiny_krea2_directory(tmp_path, sizes, dtype="BF16")))
    hparams, backend = files.dit_hparams, CpuBackend(threads=2)
    weights = dit.modulated(files.block(0), np.zeros((6, hparams.blocks.width), np.float32))
    block = sum(2 * int(np.prod(matrix.shape)) for matrix in weights.matrices.values())
    rows = (TOKENS + SIDE**2) * hparams.blocks.width * 4
    activations = layer_bytes(backend, dit.block_recorder(hparams, TOKENS + SIDE**2), weights) - block + 4 * rows
    modulation = np.zeros((6, hparams.blocks.width), np.float32)
    x = np.zeros((SIDE**2, dit.PATCH_VALUES), np.float32)
    text: Any = np.zeros((TOKENS, hparams.blocks.width), np.float32)
    tracemalloc.start()  # numpy's arrays are counted
    try:
        denoiser = dit.Denoiser(backend, files.dit, hparams, SIDE, SIDE, TOKENS)
        result(denoiser.prepare())
        result(denoiser.velocities(x, [text], modulation[0], modulation))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.9 <= (most - activations) / block <= 1.2


@pytest.mark.parametrize("keep", [False, True])
def test_blocks_of_several_types_compute_in_the_memory_of_one(tmp_path: Path, keep: bool) -> None:
    """Passes over F16 weights take more than those over BF16. What is told beforehand suffices, and is little more."""
    sizes, side = TinyKrea2(ff_width=384, layers=5), 40
    root = tiny_krea2_directory(tmp_path, sizes)
    found = find_files(root)
    f16 = ("blocks.1.", "blocks.2.", "blocks.4.")
    raw = {
        name: stored(value, "F16" if value.ndim == 2 and name.startswith(f16) else "BF16")
        for name, value in dit_tensors(sizes).items()
    }
    found.dit.write_bytes(safetensors_bytes(raw))
    files, alone, backend = Opened(found, keep=keep), Opened(found), CpuBackend(threads=1)
    hparams = files.dit_hparams
    rng = np.random.default_rng(0)
    modulation = rng.standard_normal((6, hparams.blocks.width), np.float32)
    x = rng.standard_normal((side**2, dit.PATCH_VALUES), np.float32)
    text: Any = rng.standard_normal((TOKENS, hparams.blocks.width), np.float32)
    prompt = SimpleNamespace(ids=range(TOKENS), leading=0)
    request: Any = SimpleNamespace(files=files, latent=(2 * side, 2 * side), prompts=[prompt])
    scratch = memory._attention_bytes(backend, TOKENS + side**2, hparams.blocks.head_dim)  # no arrays of numpy's
    told = memory._drawing_bytes(backend, request) - scratch

    def steps(kept: Any) -> list[Any]:
        denoiser = dit.Denoiser(backend, files.dit, hparams, side, side, TOKENS, kept)
        result(denoiser.prepare())
        return [result(denoiser.velocities(x, [text], modulation[0], modulation)) for _ in range(2)]

    if keep:
        steps(files.kept)  # the weights are there then
    expected = steps(alone.kept)
    tracemalloc.start()
    try:
        given = steps(files.kept)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(given, expected)
    assert 0.8 * told <= most - 2 * x.nbytes <= told  # what the last step gave, and what this one gives
