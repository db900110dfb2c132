"""What a step takes whose blocks are read from the file: the memory of one block, and activations."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from golem_host.devices.cpu import CpuBackend
from golem_host.testing.tiny_krea2 import TinyKrea2, tiny_krea2_directory
from golem_host_krea2 import dit
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
