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
from shape_dense import Dense
from shape_encoders import F16, Q8_0, nomic_bert_moe
from shape_families import Q4_0, Q4_K_M, Experts, Shape, TensorShape, gemma4, qwen3, whole
from shape_gemma4_large import LargeGemma4
from shape_qwen35 import Hybrid

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
    # Where a number follows the size, it is the layers that are left of a larger checkpoint.
    "llama-3.2-1b": lambda: Dense(
        "llama", 16, 2048, 8192, 32, 8, 64, 128256, context=131072, rope_base=5e5, rope_factors=True
    )(Q4_K_M),
    "mixtral-8x7b-2": lambda: Dense(
        "llama", 2, 4096, 14336, 32, 8, 128, 32000, tied=False, experts=Experts(8, 2, 14336)
    )(Q4_K_M),
    "ministral-3-3b-8": lambda: Dense("mistral3", 8, 3072, 9216, 32, 8, 128, 131072)(Q4_K_M),
    "smollm3-3b-10": lambda: Dense("smollm3", 10, 2048, 11008, 16, 4, 128, 128256, rope_base=5e6)(Q4_K_M),
    "qwen2.5-1.5b": lambda: Dense("qwen2", 28, 1536, 8960, 12, 2, 128, 151936, biases=True)(Q4_K_M),
    "bonsai-1.7b-q1_0": lambda: Dense("qwen3", 28, 2048, 6144, 16, 8, 128, 151936, head_norms=True)(whole("Q1_0", 40)),
    "bonsai-1.7b-q2_0": lambda: Dense("qwen3", 28, 2048, 6144, 16, 8, 128, 151936, head_norms=True)(whole("Q2_0", 41)),
    "gemma2-2b-12": lambda: Dense(
        "gemma2", 12, 2304, 9216, 8, 4, 256, 256000, context=8192, rope_base=1e4, window=4096, post_norms=True
    )(Q4_K_M),
    "gemma3-4b-12": lambda: Dense(
        "gemma3", 12, 2560, 10240, 8, 4, 256, 262144, window=1024, post_norms=True, head_norms=True
    )(Q4_K_M),
    "gemma4-12b-6": lambda: LargeGemma4(6, 3840, 15360, 16, 8, 1)(Q4_K_M),
    "gemma4-26b-a4b-6": lambda: LargeGemma4(6, 2816, 2112, 16, 8, 2, experts=Experts(128, 8, 704))(Q4_0),
    "qwen3.5-0.8b": lambda: Hybrid(24, 1024, 3584, 8, 2, 16, 16)(Q4_K_M),
    "qwen3.5-4b-8": lambda: Hybrid(8, 2560, 9216, 16, 4, 16, 32)(Q4_K_M),
    "qwen3.5-35b-a3b-4": lambda: Hybrid(4, 2048, 512, 16, 2, 16, 32, tied=False, experts=Experts(256, 8, 512))(Q4_K_M),
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
