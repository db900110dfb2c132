"""A laya checkpoint of the English one's shape (ModernBERT-large, two head layers) with random weights in bfloat16."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from golem_host.testing import tiny_laya

LARGE = {
    **tiny_laya.ENCODER,
    "vocab_size": 50368,
    "hidden_size": 1024,
    "intermediate_size": 2624,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "local_attention": 128,
    "max_position_embeddings": 8192,
}
HEAD = {**tiny_laya.CONFIG, "max_len": 512, "head_max_len": 192}


def write_laya_large(folder: Path) -> None:
    """Write the directory; tokens are bytes, which only the tokenizer notices."""
    (folder / "encoder").mkdir(parents=True)
    (folder / "tokenizer").mkdir()
    (folder / "encoder" / "config.json").write_text(json.dumps(LARGE))
    (folder / "rl_agent_config.json").write_text(json.dumps(HEAD))
    tiny_laya.write_tokenizer(folder / "tokenizer")
    tensors = tiny_laya.random_tensors(LARGE, HEAD, 1)
    header, at = {}, 0
    for name, value in tensors.items():
        end = at + 2 * value.size
        header[name] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            np.ascontiguousarray(tiny_laya.stored(value, "BF16")).tofile(file)
