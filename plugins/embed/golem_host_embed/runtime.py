"""A loaded embedding model: its lane and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golem_host.api import InternalError, Job, OneShotLane
from golem_host.lanes.oneshot import Part
from golem_host_embed.checkpoint import Checkpoint
from golem_host_embed.passes import Passes, pass_rows
from golem_host_embed.tokens import Tokens

if TYPE_CHECKING:
    from golem_host.devices.device import Device
    from golem_host_embed.model import EmbedModel

GATHER_ROWS = 256
"""A pass of fewer tokens takes nearly as long with more (it reads all weights), so it waits for them ..."""
GATHER_SECONDS = 0.003
"""... this long."""


@dataclass(frozen=True)
class Texts:
    """The texts of a request one after the other: int32 `tokens` and `segments` (rows,), and where each text begins,
    `starts` (texts + 1,). `costs` are their lengths, `results` float32 (texts, width) what the passes gave so far.
    """

    tokens: NDArray[np.int32]
    segments: NDArray[np.int32]
    starts: NDArray[np.int64]
    costs: list[int]
    results: NDArray[np.float32]


class EmbedRuntime:
    """What routes need of a loaded model.

    `context` is the longest text in tokens. `width` is how many numbers `submit` gives for a text: the components of a
    vector, or 1, the score, for a cross-encoder.
    """

    def __init__(
        self,
        model: EmbedModel,
        checkpoint: Checkpoint,
        device: Device,
        settings: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
    ) -> None:
        self._checkpoint = checkpoint
        self.context = checkpoint.context_length
        self.tokens = checkpoint.tokens()
        self._passes = Passes(checkpoint, device.backend, capacity=pass_rows(self.context))
        self._passes.prepare(progress)
        self.width = self._passes.width
        self.lane = OneShotLane(
            model.name,
            self._run,
            kind=model.kind,
            costs=lambda job: job.request.costs,
            budget=self._passes.capacity,
            gather_below=GATHER_ROWS,
            gather_seconds=GATHER_SECONDS,
            queue_limit=settings["queue"],
        )

    def request(self, texts: Sequence[Tokens]) -> Texts:
        """Texts of 1 to `context` tokens each as a job carries them. Not for the event loop when there are many."""
        costs = [len(text) for text in texts]
        if not costs or not min(costs) or max(costs) > self.context:
            raise ValueError(f"texts of 1 to {self.context} tokens are expected, not of {costs[:8]}")
        starts = np.concatenate(([0], np.cumsum(costs)))
        rows = int(starts[-1])
        segments = np.zeros(rows, np.int32)
        for text, start in zip(texts, starts.tolist(), strict=False):
            if text.segments:
                segments[start : start + len(text)] = text.segments
        tokens = np.fromiter(chain.from_iterable(text.ids for text in texts), np.int32, rows)
        return Texts(tokens, segments, starts, costs, np.empty((len(costs), self.width), np.float32))

    def job(self, texts: Sequence[Tokens]) -> Job[Texts]:
        """A job for the texts of a request, 1 to `context` tokens each, to be submitted to the lane, which cuts them
        into passes. Not for the event loop when there are many.

        The job's result is float32 (texts, width) in their order: pooled, not normalised, or scores.
        """
        return Job(self.request(texts))

    def close(self) -> None:
        """Give the weights back; the checkpoint is closed with them."""
        self._passes.close()
        self._checkpoint.close()

    def _run(self, parts: list[Part]) -> None:
        """One pass. A request with a text whose numbers are not finite fails, the others do not."""
        rows = [slice(*part.job.request.starts[[part.first, part.end]]) for part in parts]
        results = self._passes.run(
            np.concatenate([part.job.request.tokens[each] for part, each in zip(parts, rows, strict=True)]),
            np.concatenate([part.job.request.segments[each] for part, each in zip(parts, rows, strict=True)]),
            np.concatenate([part.job.request.costs[part.first : part.end] for part in parts]).astype(np.int32),
        )
        finite = np.asarray(np.isfinite(results).all(axis=1))
        at = 0
        for part in parts:
            texts: Texts = part.job.request
            here = slice(at, at := at + part.end - part.first)
            if not finite[here].all():
                text = part.first + int(finite[here].argmin())
                part.job.fail(
                    InternalError(f"the model's answer for text {text} is not finite: its weights are damaged")
                )
                continue
            texts.results[part.first : part.end] = results[here]
            if part.last:
                part.job.finish(texts.results)
