"""GGUF files of true shape with random weights: python benchmarks/shapes.py SHAPE OUT.gguf

Everything that decides speed is as in the published checkpoint: names, shapes and types of the tensors, layers, heads,
vocabulary size. What a model of random weights says means nothing. A file is written in one go, about as fast as the
disk takes it; memory stays below 200 MiB.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from golem_host.testing.random_blocks import random_blocks
from golem_host.testing.raw_gguf import RawTensor, gguf_bytes
from golem_host.testing.tiny_vocab import Vocabulary
from golem_host.weights.types import GgmlType
from shape_encoders import F16, Q8_0, nomic_bert_moe
from shape_families import Q4_0, Q4_K_M, Experts, Shape, TensorShape, gemma4, qwen3

ALIGNMENT = 32
CHUNK = 1 << 24
"""Values written at a time."""

SHAPES: dict[str, Callable[[], Shape]] = {
    "qwen3-0.6b": lambda: qwen3(Q4_K_M, layers=28, width=1024, feed_forward=3072, heads=16),
    "qwen3-4b": lambda: qwen3(Q4_0, layers=36, width=2560, feed_forward=9728, heads=32),
    "gemma4-e2b": lambda: gemma4(Q4_K_M),
    # Qwen3-30B-A3B with 8 of its 48 layers.
    "qwen3-30b-a3b-8": lambda: qwen3(
        Q4_K_M,
        layers=8,
        width=2048,
        feed_forward=6144,
        heads=32,
        kv_heads=4,
        tied=False,
        experts=Experts(count=128, used=8, feed_forward=768),
    ),
    "nomic-v2-f16": lambda: nomic_bert_moe(F16),
    "nomic-v2-q8_0": lambda: nomic_bert_moe(Q8_0),
}


def write_shape(shape: Shape, path: Path, *, seed: int = 0) -> None:
    """Write the file; it appears under its name when it is whole."""
    random = np.random.Generator(np.random.SFC64(seed))
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(_header(shape))
        for tensor in shape.tensors:
            for chunk in _values(random, tensor):
                file.write(chunk)
            _pad(file)
    part.replace(path)


def _header(shape: Shape) -> bytes:
    offset, tensors = 0, []
    for tensor in shape.tensors:
        kind = GgmlType[tensor.kind]
        tensors.append(RawTensor(tensor.name, tensor.dims, kind.value, b"", offset))
        size = math.prod(tensor.dims) // kind.block_size * kind.block_bytes
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    return gguf_bytes(shape.metadata | _tokenizer(shape.vocabulary), tensors, alignment=ALIGNMENT)


def _tokenizer(words: Vocabulary) -> dict[str, Any]:
    keys: dict[str, Any] = {"model": words.model, "tokens": words.tokens}
    keys["token_type"] = np.array(words.types, np.int32)
    if words.scores is not None:
        keys["scores"] = np.array(words.scores, np.float32)
    if words.merges is not None:
        keys["merges"] = words.merges
    keys |= words.keys
    template = {"tokenizer.chat_template": words.chat_template} if words.chat_template else {}
    return {f"tokenizer.ggml.{name}": value for name, value in keys.items()} | template


def _values(random: np.random.Generator, tensor: TensorShape) -> Iterator[bytes | memoryview]:
    """The tensor's bytes, a chunk at a time."""
    if tensor.values is not None:
        yield tensor.values.tobytes()
        return
    kind = GgmlType[tensor.kind]
    left = math.prod(tensor.dims) // kind.block_size
    while left:
        count = min(left, CHUNK // kind.block_size)
        left -= count
        if kind in (GgmlType.F32, GgmlType.F16, GgmlType.BF16):
            drawn = random.standard_normal(count, np.float32) * np.float32(tensor.spread) + np.float32(tensor.mean)
            stored = {GgmlType.F16: drawn.astype(np.float16), GgmlType.BF16: drawn.view(np.uint16)[1::2]}
            yield stored.get(kind, drawn).tobytes()
        else:
            yield random_blocks(random, tensor.kind, count, tensor.spread).data


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % ALIGNMENT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_shape(SHAPES[given.shape](), given.out, seed=given.seed)


if __name__ == "__main__":
    main()
