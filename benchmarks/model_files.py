"""The files that are measured: three real checkpoints, and shapes that are made when they are missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from golem_host.core_settings import cache_folder
from golem_host.weights.gguf import open_gguf
from shapes import SHAPES, write_shape

REAL = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", "GOLEM_TEST_SMOLLM2"),
    "gemma3": ("gemma-3-270m-q4_k_m.gguf", "GOLEM_TEST_GEMMA3"),
    "minilm": ("all-MiniLM-L6-v2", "GOLEM_TEST_MINILM"),
}


def model_file(name: str, folder: Path) -> Path:
    """A real model (a file or directory: where its variable says, else in the model folder), or a shape in `folder`."""
    if name in REAL:
        file, variable = REAL[name]
        path = Path(os.environ.get(variable) or cache_folder() / file)
        if not path.exists():
            sys.exit(f"{path} is missing: set {variable}, or run python tests/fetch_test_models.py")
        return path
    path = folder / f"{name}.gguf"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"making {path}", file=sys.stderr)
        write_shape(SHAPES[name](), path)
    return path


def weights_read(model: Path) -> int:
    """Bytes of weights that a pass over one token reads: all but the tables it takes a single row of."""
    with open_gguf(model) as gguf:
        tables = {"per_layer_token_embd.weight"}
        if "output.weight" in gguf.tensors:
            tables.add("token_embd.weight")
        return sum(tensor.nbytes for tensor in gguf.tensors.values() if tensor.name not in tables)
