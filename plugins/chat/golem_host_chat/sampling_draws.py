"""The last step of a sampling chain: which of the candidates left is drawn.

Each follows llama.cpp's `src/llama-sampler.cpp` (b11434).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from golem_host_chat.sampling_filters import Candidates, softmax
from golem_host_chat.sampling_random import Mt19937

_SMALLEST = np.finfo(np.float64).smallest_subnormal
_FITTED = 100
"""Tokens from which the first mirostat tells how fast probabilities fall."""
_PEAK, _SHARPNESS, _WIDTH = np.float32(5.0), np.float32(10.0), np.float32(1) / np.float32(0.3)


class Draw(Protocol):
    """Draws the position of a candidate, by the probabilities of those that are left when it returns.

    Raises `SamplingError`.
    """

    def __call__(self, candidates: Candidates) -> int: ...


class Proportional:
    """In proportion to the candidates' probabilities: one number from `random` for each draw, always."""

    def __init__(self, random: Mt19937) -> None:
        self._random = random

    def __call__(self, candidates: Candidates) -> int:
        """The first candidate at which the running sum of weights reaches a uniform share of the whole."""
        weights = np.exp(candidates.logits - candidates.best())
        running = np.cumsum(weights.astype(np.float64))
        return _first_at(running, self._random.uniform_double() * running[-1])


class MirostatOne:
    """Mirostat: keeps as many tokens as let the surprise of what is drawn settle around `tau` bits.

    Their number follows from how fast the probabilities of the first 100 fall (Zipf's law) and from the surprise so
    far, which moves the aim by `eta` of each difference. `vocab_size` is the number of tokens there are.
    """

    def __init__(self, *, tau: float, eta: float, vocab_size: int, random: Mt19937) -> None:
        self._surprise = _Surprise(tau, eta)
        self._vocab_size = vocab_size
        self._random = random

    def __call__(self, candidates: Candidates) -> int:
        kept = self._kept(candidates)
        candidates.largest(min(kept, len(candidates.logits)))
        return self._surprise.draw(candidates, self._random)

    def _kept(self, candidates: Candidates) -> int:
        first = Candidates(candidates.logits)
        first.largest(min(_FITTED, len(first.logits)))
        steps = (first.logits[:-1] - first.logits[1:]).tolist()
        if not all(map(math.isfinite, steps)) or not steps:
            return 1
        ranks = [math.log((rank + 2) / (rank + 1)) for rank in range(len(steps))]
        exponent = sum(r * s for r, s in zip(ranks, steps, strict=True)) / sum(r * r for r in ranks)
        excess = exponent - 1
        try:
            share = excess * 2.0**self._surprise.aim / (1 - float(self._vocab_size) ** -excess)
            kept = share ** (1 / exponent)
        except (ZeroDivisionError, OverflowError):
            return self._vocab_size
        return max(1, int(kept)) if kept < self._vocab_size else self._vocab_size


class MirostatTwo:
    """Mirostat 2: drops the tokens whose surprise, in bits, is over an aim that follows the surprise of what is drawn
    towards `tau`, by `eta` of each difference.
    """

    def __init__(self, *, tau: float, eta: float, random: Mt19937) -> None:
        self._surprise = _Surprise(tau, eta)
        self._random = random

    def __call__(self, candidates: Candidates) -> int:
        with np.errstate(divide="ignore"):
            surprises = -np.log2(softmax(candidates))
        expected = np.flatnonzero(surprises <= np.float32(self._surprise.aim))
        if not len(expected):
            expected = np.array([np.argmax(candidates.logits)])
        candidates.take(expected)
        candidates.order()
        return self._surprise.draw(candidates, self._random)


class AdaptiveProbability:
    """Adaptive-p: prefers tokens whose probability is near a target, which moves so that those drawn average `target`.

    The average forgets by `decay` (0 to 0.99) with each token. A negative target draws by probability.
    """

    def __init__(self, *, target: float, decay: float, random: Mt19937) -> None:
        self._target = np.float32(target)
        self._decay = np.float32(decay)
        self._weight = np.float32(1) / (np.float32(1) - self._decay)
        self._sum = self._target / (np.float32(1) - self._decay)
        self._random = random

    def __call__(self, candidates: Candidates) -> int:
        original = softmax(candidates)
        if self._target < 0:
            return _discrete(original, self._random)
        aim = np.clip(np.float32(2) * self._target - self._sum / self._weight, np.float32(0), np.float32(1))
        distance = np.abs((original - aim) * _WIDTH)
        logits = candidates.own()
        possible = logits != -np.inf
        preferred = _PEAK - _SHARPNESS * distance * distance / (np.float32(1) + distance)
        logits[possible] = preferred[possible]
        candidates.ordered = False
        position = _discrete(softmax(candidates), self._random)
        self._sum = original[position] + self._decay * self._sum
        self._weight = np.float32(1) + self._decay * self._weight
        return position


class _Surprise:
    """What both kinds of mirostat follow: the aim, in bits, float32; `tau` apart from it at first by `tau`."""

    def __init__(self, tau: float, eta: float) -> None:
        self._tau, self._eta = np.float32(tau), np.float32(eta)
        self._aim = np.float32(2) * self._tau

    @property
    def aim(self) -> float:
        return float(self._aim)

    def draw(self, candidates: Candidates, random: Mt19937) -> int:
        probabilities = softmax(candidates)
        position = _discrete(probabilities, random)
        surprise = -np.log2(probabilities[position])
        self._aim = self._aim - self._eta * (surprise - self._tau)
        return position


def _discrete(probabilities: NDArray[np.float32], random: Mt19937) -> int:
    """C++'s `std::discrete_distribution` (libstdc++): of one candidate it draws no number."""
    if len(probabilities) < 2:
        return 0
    shares = probabilities.astype(np.float64)
    running = np.cumsum(shares / np.cumsum(shares)[-1])
    running[-1] = 1.0
    return _first_at(running, random.uniform_double())


def _first_at(running: NDArray[np.float64], target: float) -> int:
    """The first position whose running sum reaches `target`: never a leading one of weight zero."""
    return int(np.searchsorted(running, max(target, _SMALLEST)))
