"""What the tiny random encoders share: their weights, their metadata, and the words of their vocabularies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[np.float32]]

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
MARKS = ".,:;!?'\"()-_/"
WORDS = ("the", "of", "and", "search", "query", "document", "hello", "world", "engine", "king", "queen", "un")
ENDINGS = ("ing", "ed", "er", "es", "able", "ion")


class EncoderWeights:
    """Float32 weights by GGUF name, matrices (out, in): every layer changes the rows, and attention is neither flat nor
    stuck."""

    def __init__(self, seed: int, width: int) -> None:
        self.generator = np.random.default_rng(seed)
        self._width = width

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> NDArray[np.float32]:
        """(rows, columns)."""
        return (self.generator.standard_normal((rows, columns)) * gain / math.sqrt(columns)).astype(np.float32)

    def stack(self, count: int, rows: int, columns: int) -> NDArray[np.float32]:
        """The matrices of `count` experts, (count, rows, columns)."""
        return (self.generator.standard_normal((count, rows, columns)) * 2 / math.sqrt(columns)).astype(np.float32)

    def linear(self, name: str, rows: int, columns: int) -> Tensors:
        """Weight and bias of a product."""
        bias = (0.1 * self.generator.standard_normal(rows)).astype(np.float32)
        return {f"{name}.weight": self.matrix(rows, columns, 1.5), f"{name}.bias": bias}

    def norm(self, name: str) -> Tensors:
        """Weight and bias of a normalization."""
        draw = self.generator.standard_normal
        return {
            f"{name}.weight": (1 + 0.2 * draw(self._width)).astype(np.float32),
            f"{name}.bias": (0.1 * draw(self._width)).astype(np.float32),
        }


def encoder_keys(
    architecture: str, layers: int, width: int, ff_width: int, heads: int, context: int, pooling: int | None, eps: float
) -> dict[str, Any]:
    """The metadata of an encoder's sizes, for a GGUF file."""
    keys = {
        "block_count": layers,
        "context_length": context,
        "embedding_length": width,
        "feed_forward_length": ff_width,
        "attention.head_count": heads,
        "attention.layer_norm_epsilon": eps,
        "attention.causal": False,
        "pooling_type": pooling,
    }
    return {"general.name": f"tiny {architecture}"} | {f"{architecture}.{name}": value for name, value in keys.items()}


def encoder_tokenizer_keys(**keys: Any) -> dict[str, Any]:
    """The metadata of a tokenizer, named without its prefix."""
    return {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
