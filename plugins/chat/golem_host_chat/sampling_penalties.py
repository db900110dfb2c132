"""Repeat, frequency and presence penalties over a window of the latest tokens, prompt included."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from golem_host_chat.sampling_filters import Candidates


class RepetitionPenalties:
    """llama.cpp's rule, for each token with count c > 0 in the window (float32):

    z becomes z * repeat where z <= 0, else z / repeat; then c * frequency + presence is taken off. The window is the
    last `last_n` of prompt and accepted tokens; special tokens and newlines count like any other.
    """

    def __init__(self, last_n: int, repeat: float, frequency: float, presence: float, prompt: Sequence[int]) -> None:
        self._window = deque((int(token) for token in prompt[-last_n:]), maxlen=last_n)
        self._counts = Counter(self._window)
        self._repeat = np.float32(repeat)
        self._frequency = np.float32(frequency)
        self._presence = np.float32(presence)
        self._arrays: tuple[NDArray[np.int32], NDArray[np.float32]] | None = None

    def accept(self, token: int) -> None:
        """`token` was drawn."""
        if len(self._window) == self._window.maxlen:
            oldest = self._window[0]
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]
        self._window.append(token)
        self._counts[token] += 1
        self._arrays = None

    def __call__(self, candidates: Candidates) -> None:
        if not self._counts:
            return
        ids, counts = self._tokens()
        if candidates.ids is None:
            positions = ids
        else:
            found = np.minimum(np.searchsorted(ids, candidates.ids), len(ids) - 1)
            positions = np.flatnonzero(ids[found] == candidates.ids)
            counts = counts[found[positions]]
        touched = candidates.logits[positions]
        touched = np.where(touched <= 0, touched * self._repeat, touched / self._repeat)
        candidates.change(positions, touched - (counts * self._frequency + self._presence))

    def _tokens(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Ids of the window, rising, and how often each is in it."""
        if self._arrays is None:
            ids = np.fromiter(self._counts.keys(), np.int32, len(self._counts))
            counts = np.fromiter(self._counts.values(), np.float32, len(self._counts))
            order = np.argsort(ids)
            self._arrays = ids[order], counts[order]
        return self._arrays
