"""The forward passes of one loaded encoder: recorded for a few widths, replayed for whatever texts there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.api import ModelFileError
from golem_host.ops import Axis, Recording, Ref
from golem_host_embed.checkpoint import Checkpoint, Hparams, Pooling
from golem_host_embed.encoder import Batch, Encoder
from golem_host_embed.weights import Linear, Weights

PASS_ROWS = 4096
"""Tokens of a pass, unless a single text has more."""
NARROWEST = 64
"""Rows of the narrowest recording; each other one is eight times as wide as the one before, up to the widest pass. A
graphics device starts the work of all rows that were recorded, however few are live."""

FAMILIES = {
    "bert": "golem_host_embed.bert:Bert",
    "nomic-bert-moe": "golem_host_embed.nomic_bert_moe:NomicBertMoe",
}
"""Where each family lives, by `general.architecture`."""


def encoder_of(checkpoint: Checkpoint) -> Encoder:
    """The checkpoint's family, its tensors checked. Raises `ModelFileError`."""
    home = FAMILIES.get(checkpoint.architecture)
    if home is None:
        raise ModelFileError(checkpoint.path, f"encoders of family '{checkpoint.architecture}' are not served")
    module, name = home.split(":")
    return getattr(importlib.import_module(module), name)(checkpoint)


def require_tensors(checkpoint: Checkpoint) -> None:
    """Raise `ModelFileError` for a tensor that is missing or that the family cannot use."""
    encoder_of(checkpoint)
    if checkpoint.classifier:
        Head(checkpoint)


def pass_rows(context: int) -> int:
    """Rows of the widest pass of a model whose longest text has `context` tokens."""
    return max(PASS_ROWS, context)


def widths(capacity: int) -> list[int]:
    """Rows of each recording, rising to `capacity`."""
    found = [NARROWEST]
    while found[-1] < capacity:
        found.append(8 * found[-1])
    return [*found[:-1], capacity]


def pass_bytes(hparams: Hparams, context: int) -> int:
    """Bytes that the rows of the passes of all widths take at most: of the feed-forward, also as its second product
    wants them, and four of the model's width."""
    inner = hparams.ff_width * max(1, hparams.experts_used)
    return 4 * sum(widths(pass_rows(context))) * (2 * inner + 4 * hparams.width)


class Head:
    """The scores of a cross-encoder: a dense layer with tanh, where the checkpoint has one, and a row of weights."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        weights, width = Weights(checkpoint), checkpoint.hparams.width
        self._dense: Linear | None = weights.linear("cls", width, width) if "cls.weight" in weights else None
        self._output = weights.linear("cls.output", 1, width)

    def __call__(self, x: Ref) -> Ref:
        if self._dense is not None:
            x = ops.softcap(self._dense(x), 1.0)  # tanh
        return self._output(x)


class Passes:
    """Passes of up to `capacity` rows. `run` is called on the device thread only.

    `width` is how many numbers a text gets: the components of a vector, or one, its score.
    """

    def __init__(self, checkpoint: Checkpoint, backend: Any, *, capacity: int) -> None:
        self.capacity = capacity
        self.width = 1 if checkpoint.classifier else checkpoint.hparams.width
        self._pooling = checkpoint.pooling
        self._encoder = encoder_of(checkpoint)
        self._head = Head(checkpoint) if checkpoint.classifier else None
        self._backend = backend
        self._programs: dict[int, Any] = {}

    def prepare(self, progress: Callable[[float], None]) -> None:
        """Bring the weights into memory and compile the passes. `progress` takes the share done."""
        self._backend.prepare(self.record(), progress)
        self._programs = {width: self._backend.compile(self.record(width)) for width in widths(self.capacity)}

    def record(self, width: int | None = None, *, keep_names: bool = False) -> Recording:
        """The pass of `width` rows, or of `capacity`; its output `texts` is (texts, width)."""
        recording = Recording(keep_names=keep_names)
        width = width or self.capacity
        rows, texts = recording.axis("rows", width), recording.axis("texts", width)
        batch = Batch(*(recording.input(name, rows) for name in ("tokens", "positions", "segments", "text_of_row")))
        pooled = self._pooled(recording, self._encoder.forward(batch), texts)
        recording.output("texts", pooled if self._head is None else self._head(pooled))
        return recording

    def _pooled(self, recording: Recording, x: Ref, texts: Axis) -> Ref:
        first = recording.input("first", texts)
        if self._pooling is Pooling.MEAN:
            return ops.mean(x, first, recording.input("count", texts))
        return ops.select(x, first if self._pooling is Pooling.CLS else recording.input("last", texts))

    def run(
        self, tokens: NDArray[np.int32], segments: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """What each text of a pass gets, (texts, width), valid until the next pass.

        `tokens` and `segments` (rows,) are those of the texts one after the other, of `lengths` (texts,) rows each.
        """
        if not self._programs:
            raise RuntimeError("the passes of an unloaded model")
        rows, texts = len(tokens), len(lengths)
        width = next((width for width in self._programs if width >= rows), self.capacity)
        program = self._programs[width]
        last = np.cumsum(lengths, dtype=np.int32) - 1
        first = last - lengths + 1
        values = {"tokens": tokens, "segments": segments, "first": first, "last": last, "count": lengths}
        values["positions"] = np.arange(rows, dtype=np.int32) - np.repeat(first, lengths)
        values["text_of_row"] = np.repeat(np.arange(texts, dtype=np.int32), lengths)
        for name, into in program.inputs.items():
            into[: len(values[name])] = values[name]
        program.run({"rows": rows, "texts": texts})
        return program.output("texts")

    def close(self) -> None:
        """Let go of weights and programs, whoever still holds this object."""
        self._programs.clear()
        del self._encoder, self._head
