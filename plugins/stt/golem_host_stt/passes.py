"""The passes of one loaded checkpoint, recorded for a few widths: frames to codes, and codes to text tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.ops import Recording
from golem_host_stt.checkpoint import Checkpoint
from golem_host_stt.lm import LanguageModel
from golem_host_stt.mimi import STEPS, Frames, MimiEncoder
from golem_host_stt.mimi_config import FRAME

WIDEST_ENCODING = 8
"""Frames of a codec pass, unless more streams than that are live at once: a pass should not keep others waiting."""

Codes = NDArray[np.int32]


def widths(most: int) -> list[int]:
    """Powers of two up to `most`, and `most`."""
    return [*(1 << power for power in range(most.bit_length()) if 1 << power < most), most]


@dataclass(frozen=True)
class Step:
    """What a step of the language model gave a stream: the text token (-1: not finite), float32 `logits` (text_cards,)
    and `pauses` (heads * 6,), valid until the next pass.
    """

    token: int
    logits: NDArray[np.float32]
    pauses: NDArray[np.float32] | None


class Passes:
    """Passes over the states of `slots` streams. `encode` and `step` are called on the device thread only."""

    def __init__(
        self, checkpoint: Checkpoint, backend: Any, *, slots: int, q8_0: bool, progress: Callable[[float], None]
    ) -> None:
        self._levels, self._pauses = checkpoint.lm.levels, checkpoint.lm.pauses
        self.slots = slots
        self.widest_encoding = max(WIDEST_ENCODING, slots)
        mimi = MimiEncoder(checkpoint, backend, slots=slots, widest=self.widest_encoding)
        lm = LanguageModel(checkpoint, backend, slots=slots, q8_0=q8_0, progress=lambda done: progress(0.5 * done))
        self._encoders: dict[int, tuple[Any, Frames]] = {}
        recordings = {}
        for width in widths(self.widest_encoding):
            recordings[width] = Recording()
            frames = mimi.record(recordings[width], width)
            self._encoders[width] = (None, frames)
        steps = {width: Recording() for width in widths(slots)}
        for width, recording in steps.items():
            lm.record(recording, width)
        backend.prepare(recordings[1], lambda done: None)
        backend.prepare(steps[1], lambda done: progress(0.5 + 0.5 * done))
        for width, recording in recordings.items():
            self._encoders[width] = (backend.compile(recording), self._encoders[width][1])
        self._steps = {width: backend.compile(recording) for width, recording in steps.items()}
        self._networks: tuple[MimiEncoder, LanguageModel] | None = (mimi, lm)

    def encode(self, slots: Sequence[int], positions: Sequence[int], samples: NDArray[np.float32]) -> Codes:
        """Codes (frames, levels) of `samples` (frames, 1920): each frame the `positions`-th of the stream of its slot,
        a stream's frames in order; at most `widest_encoding` frames.
        """
        count = len(slots)
        program, frames = next(each for width, each in self._encoders.items() if width >= count)
        inputs = program.inputs
        inputs["slots"][:count], inputs["positions"][:count] = slots, positions
        inputs["step_slots"][: STEPS * count] = np.repeat(slots, STEPS)
        steps = STEPS * np.asarray(positions)[:, None] + np.arange(STEPS)
        inputs["step_positions"][: STEPS * count] = steps.reshape(-1)
        inputs["samples"][: FRAME * count] = samples.reshape(-1)
        program.run(frames.live(count))
        return np.stack([program.output(f"code-{level}")[:, 0] for level in range(self._levels)], axis=1)

    def step(self, slots: Sequence[int], positions: Sequence[int], text: Sequence[int], codes: Codes) -> list[Step]:
        """One step of each of the streams in `slots`, with the `text` token before it and `codes` (streams, levels)."""
        count = len(slots)
        program = next(program for width, program in self._steps.items() if width >= count)
        inputs = program.inputs
        inputs["slots"][:count], inputs["positions"][:count], inputs["text"][:count] = slots, positions, text
        for level in range(self._levels):
            inputs[f"code-{level}"][:count] = codes[:, level]
        program.run({"rows": count})
        tokens, logits = program.output("token"), program.output("logits")
        pauses = program.output("pauses") if self._pauses else [None] * count
        return [Step(int(tokens[row, 0]), logits[row], pauses[row]) for row in range(count)]

    def close(self) -> None:
        """Let go of weights and programs, whoever still holds this object."""
        self._encoders.clear()
        self._steps.clear()
        self._networks = None
