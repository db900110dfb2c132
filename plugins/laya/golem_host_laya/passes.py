"""The forward pass of one loaded checkpoint: recorded for a few widths, replayed for whatever sequences come."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host import ops
from golem_host.ops import Recording
from golem_host_laya.act_head import ActHead
from golem_host_laya.checkpoint import MAX_LEN, Checkpoint, Hparams
from golem_host_laya.network import Batch, Network
from golem_host_laya.questions import Kind
from golem_host_laya.sequences import Row

WIDTHS = (64, 512, 4096, MAX_LEN)
"""Rows of each recording: on some devices a pass does the work of all rows that it has room for."""


def pass_bytes(hparams: Hparams) -> int:
    """Bytes that the rows of the passes of all widths take at most: the widest layer's, and four of the model's."""
    encoder = hparams.encoder
    return 4 * sum(WIDTHS) * (max(2 * encoder.ff_width, 4 * encoder.width) + 4 * encoder.width)


@dataclass(frozen=True)
class Decision:
    """What a pass says of one sequence: float32 (options,) `logits` of its slots, and the probability to act."""

    logits: NDArray[np.float32]
    act: float

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.logits).all()) and math.isfinite(self.act)


class Passes:
    """Passes of up to as many rows as the last of `widths` (rising) says. `run` is called on the device thread only."""

    def __init__(self, checkpoint: Checkpoint, backend: Any, *, widths: Sequence[int] = WIDTHS) -> None:
        self._widths = widths
        self._network: Network | None = Network(checkpoint)
        self._act_head = ActHead(checkpoint)
        self._backend = backend
        self._programs: dict[int, Any] = {}

    def prepare(self, progress: Callable[[float], None]) -> None:
        """Bring the weights into memory and compile the passes. `progress` takes the share done."""
        self._backend.prepare(self.record(self._widths[-1]), progress)
        self._programs = {width: self._backend.compile(self.record(width)) for width in self._widths}

    def record(self, width: int) -> Recording:
        """The pass of `width` rows; its outputs are `logits` (picked, 1) and `act` (sequences, 256)."""
        assert self._network is not None
        recording = Recording()
        rows, picked = recording.axis("rows", width), recording.axis("picked", width)
        tokens, positions, kinds, sequences = (
            recording.input(name, rows) for name in ("tokens", "positions", "kinds", "sequence_of_row")
        )
        batch = Batch(tokens, positions, kinds, sequences, recording.input("picked", picked))
        x = self._network.decide(self._network.encode(batch), batch)
        recording.output("logits", self._network.score(x))
        first = recording.input("first", recording.axis("sequences", width))
        recording.output("act", self._network.act(ops.select(x, first)))
        return recording

    def run(self, rows: Sequence[Row], kinds: Sequence[Kind]) -> list[Decision]:
        """What the pass says of each sequence. All of them have at most as many tokens as the widest pass has
        rows.
        """
        if not self._programs:
            raise RuntimeError("the passes of an unloaded model")
        lengths = [len(row.ids) for row in rows]
        starts = np.cumsum([0, *lengths])[:-1]
        positions = np.concatenate([np.arange(length) for length in lengths])
        picked = [[start, *(start + marker for marker in row.markers)] for start, row in zip(starts, rows, strict=True)]
        first = np.cumsum([0, *map(len, picked)])
        values = {
            "tokens": np.concatenate([row.ids for row in rows]),
            "positions": positions,
            "kinds": np.repeat([int(kind) for kind in kinds], lengths),
            "sequence_of_row": np.repeat(np.arange(len(rows)), lengths),
            "picked": np.concatenate(picked),
            "first": first[:-1],
        }
        program = next(program for width, program in self._programs.items() if width >= len(positions))
        for name, value in values.items():
            program.inputs[name][: len(value)] = value
        program.run({"rows": len(positions), "picked": int(first[-1]), "sequences": len(rows)})
        logits, act = program.output("logits")[:, 0], program.output("act")
        decisions = []
        for each, (begin, end) in enumerate(zip(first[:-1] + 1, first[1:], strict=True)):
            own = logits[begin:end].copy()
            decisions.append(Decision(own, self._act_head(own, act[each])))
        return decisions

    def close(self) -> None:
        """Let go of weights and programs, whoever still holds this object."""
        self._programs.clear()
        self._network = None
