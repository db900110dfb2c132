"""Kyutai's stt-1b-en_fr in its true shape with random weights: python benchmarks/stt_shape.py FOLDER

Everything that decides speed is as in the published checkpoint: names, shapes and types of tensors, contexts, heads.
What it hears means nothing.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from golem_host.testing.tiny_stt import LM, write_tokenizer
from golem_host_stt.checkpoint import Lm, lm_shapes
from golem_host_stt.mimi_config import Mimi, mimi_shapes

CONFIG: dict[str, Any] = {
    **LM,
    "card": 2048,
    "n_q": 32,
    "delays": [0] * 33,
    "dim": 2048,
    "hidden_scale": 4.125,
    "text_card": 8000,
    "num_heads": 16,
    "num_layers": 16,
    "context": 750,
    "depformer_dim": 1024,
    "depformer_num_heads": 16,
    "depformer_num_layers": 6,
}
POOL = 1 << 20
"""Random values that weights are made of, over and over."""


def write(folder: Path) -> Path:
    """The checkpoint, 2.2 GB, in `folder`, unless it is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "config.json").exists():
        lm = Lm(2048, 5632, 16, 16, 750, 1e5, 8000, 2048, 32, 4, 3)
        shapes = {name: (1, 1, *shape) if name.endswith("alpha") else shape for name, shape in lm_shapes(lm).items()}
        _write(folder / "model.safetensors", "BF16", shapes)
        codec = mimi_shapes(Mimi(), 32)
        for name in list(codec):  # what moshi's own reader looks for besides
            if name.endswith("input_proj.weight"):
                codec[name.replace("input_proj", "output_proj")] = (512, 256, 1)
            if name.endswith("cluster_usage"):
                codec[name.replace("cluster_usage", "_initialized")] = (1,)
        _write(folder / "mimi.safetensors", "F32", codec)
        write_tokenizer(folder / "tokenizer.model", 300)
        config = {name: value for name, value in CONFIG.items() if name != "mimi_config_name"}
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def _write(path: Path, dtype: str, shapes: dict[str, tuple[int, ...]]) -> None:
    rng = np.random.default_rng(1)
    pool = rng.standard_normal(POOL).astype(np.float32)
    size = {"BF16": 2, "F32": 4}[dtype]
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + math.prod(shape) * size
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            inner = math.prod(shape[1:])
            positive = name.endswith(("usage", "alpha", "norm1.weight", "norm2.weight", "scale", "_initialized"))
            values = np.abs(pool) + np.float32(0.5) if positive else pool * np.float32(1.4 / inner**0.5)
            raw = values if dtype == "F32" else (values.view(np.uint32) >> 16).astype(np.uint16)
            left = math.prod(shape)
            while left:
                file.write(raw[: min(left, POOL)].tobytes())
                left -= min(left, POOL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
