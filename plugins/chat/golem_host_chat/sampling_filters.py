"""The filters of the sampling chain: each narrows or rescales the candidates for the next token.

Formulas and order of comparisons follow llama.cpp's `src/llama-sampler.cpp` (b11434), in float32. Where that sorts
without a rule for equal logits, here the lower token id comes first.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from golem_host.errors import BadRequest
from golem_host.ops.draw import NativeDraw
from golem_host.ops.largest import MAXIMA_BLOCK, largest
from golem_host_chat.sampling_random import Mt19937

_PREFIXES = (256, 4096)
_FEW_OF = 16
"""After a change one block in this many may be searched again: numpy takes that much longer for each."""


class SamplingError(BadRequest):
    """What the request bans, scales or demands leaves no token that can be drawn."""


def finite(best: np.float32) -> np.float32:
    """`best`, the highest logit of some candidates. Raises `SamplingError` when it is no finite number."""
    if best == -np.inf:
        raise SamplingError(
            "every token is banned, by 'logit_bias' or by what the answer must look like: no token can be drawn"
        )
    if not math.isfinite(best):
        raise SamplingError("penalties or biases push a token's score out of range: no token can be drawn")
    return best


class Candidates:
    """The tokens still in play.

    `logits` (n,) float32; `ids` (n,) int32, or None while every token of the vocabulary is a candidate at its own id.
    `ordered`: logits fall. The first are the caller's own array: `change` alters a few of them in place, as copying a
    large vocabulary costs more than all else, until `restore` puts them back; before more is changed, `own` copies it.
    `maxima` are the block maxima of the caller's logits, where they are known.
    """

    __slots__ = ("_callers", "_changed", "_maxima", "_owned", "ids", "logits", "ordered")

    def __init__(self, logits: NDArray[np.float32], maxima: NDArray[np.float32] | None = None) -> None:
        self.logits = self._callers = logits
        self._maxima = maxima
        self.ids: NDArray[np.int32] | None = None
        self.ordered = False
        self._owned = False
        self._changed: list[tuple[NDArray[np.integer], NDArray[np.float32]]] = []

    def own(self) -> NDArray[np.float32]:
        """`logits`, to be changed in place."""
        self._maxima = None
        if not self._owned:
            self.logits = self.logits.copy()
            self._owned = True
        return self.logits

    def change(self, positions: NDArray[np.integer], logits: NDArray[np.float32]) -> None:
        """Give the candidates at `positions` other logits."""
        if not self._owned and self.logits.flags.writeable:
            self._changed.append((positions, self.logits[positions]))
            self.logits[positions] = logits
        else:
            self.own()[positions] = logits
        self.ordered = False
        if self._maxima is not None:
            self._maxima = self._maxima_after(positions)

    def _maxima_after(self, positions: NDArray[np.integer]) -> NDArray[np.float32] | None:
        """The block maxima now that the logits at `positions` are others; None where finding all anew is faster."""
        assert self._maxima is not None
        blocks = set((positions // MAXIMA_BLOCK).tolist())
        if len(blocks) * _FEW_OF > len(self._maxima):
            return None
        maxima = self._maxima.copy()
        for block in blocks:
            maxima[block] = self.logits[block * MAXIMA_BLOCK : (block + 1) * MAXIMA_BLOCK].max()
        return None if np.isnan(maxima).any() else maxima

    def restore(self) -> None:
        """Give the caller its logits back as they were; to be called at the end, whatever happens."""
        for positions, logits in reversed(self._changed):
            self._callers[positions] = logits
        self._changed.clear()

    def take(self, positions: NDArray[np.integer], logits: NDArray[np.float32] | None = None) -> None:
        """Keep the candidates at `positions`, in that order; `logits` are theirs, where known."""
        self.logits = self.logits[positions] if logits is None else logits
        self.ids = positions.astype(np.int32, copy=False) if self.ids is None else self.ids[positions]
        self._owned = True
        self._maxima = None

    def largest(self, count: int) -> None:
        """Keep the `count` largest logits, ordered."""
        if self.ordered:
            self.first(count)
        else:
            self.take(*largest(self.logits, count, self._maxima))
            self.ordered = True

    def first(self, count: int) -> None:
        """Keep the first `count`."""
        self.logits = self.logits[:count]
        self.ids = None if self.ids is None else self.ids[:count]

    def order(self) -> None:
        """Sort by falling logit."""
        if not self.ordered:
            self.take(np.argsort(-self.logits, kind="stable"))
            self.ordered = True

    def best(self) -> np.float32:
        """The highest logit. Raises `SamplingError` when there is no finite one."""
        best = self.logits[0] if self.ordered else self.logits.max()
        return finite(best)

    def draw(self, native: NativeDraw, share: float) -> int:
        """The token that the usual chain draws of the whole vocabulary. Raises `SamplingError`."""
        token = native(self.logits, self._maxima, share)
        if token < 0:
            finite(self.logits.max())
        return token

    def token(self, position: int) -> int:
        return position if self.ids is None else int(self.ids[position])


def softmax(candidates: Candidates) -> NDArray[np.float32]:
    """Probabilities (n,) of the candidates among themselves."""
    weights = np.exp(candidates.logits - candidates.best())
    weights /= weights.sum()
    return weights


def top_k(candidates: Candidates, k: int) -> None:
    """Keep the `k` largest logits."""
    candidates.largest(min(k, len(candidates.logits)))


def top_p(candidates: Candidates, p: float, min_keep: int) -> None:
    """Keep the shortest run of most likely tokens whose probabilities reach `p`, the token that crosses it included."""
    probabilities = softmax(candidates)
    if candidates.ordered:
        candidates.first(_run_length(probabilities, p, min_keep, "left"))
    else:
        candidates.take(_leading_run(candidates.logits, probabilities, p, min_keep, "left"))
        candidates.ordered = True


def _run_length(probabilities: NDArray[np.float32], p: float, min_keep: int, side: Literal["left", "right"]) -> int:
    """How many leading probabilities number at least `min_keep` and reach `p` ("left") or exceed it ("right").

    One more than there are when all of them do not.
    """
    running = np.cumsum(probabilities, dtype=np.float32)
    return max(int(np.searchsorted(running, np.float32(p), side)) + 1, min_keep)


def _leading_run(
    keys: NDArray[np.float32],
    probabilities: NDArray[np.float32],
    p: float,
    min_keep: int,
    side: Literal["left", "right"],
) -> NDArray[np.int32]:
    """Positions of the run that `_run_length` finds when probabilities are sorted by falling `keys`.

    A short run nearly always does: the whole vocabulary is sorted only when it does not.
    """
    for length in (prefix for prefix in _PREFIXES if prefix < len(keys)):
        positions, _ = largest(keys, length)
        count = _run_length(probabilities[positions], p, min_keep, side)
        if count <= length:
            return positions[:count]
    positions, _ = largest(keys, len(keys))
    return positions[: _run_length(probabilities[positions], p, min_keep, side)]


def min_p(candidates: Candidates, p: float, min_keep: int) -> None:
    """Keep logits of at least the best one + ln(p): probabilities of at least p times the best."""
    keep = candidates.logits >= candidates.best() + np.float32(math.log(p))
    count = int(np.count_nonzero(keep))
    if count >= max(min_keep, 1) and not candidates.ordered:
        candidates.take(np.flatnonzero(keep))
    else:
        candidates.order()
        candidates.first(min(max(count, min_keep, 1), len(candidates.logits)))


def typical_p(candidates: Candidates, p: float, min_keep: int) -> None:
    """Keep the tokens whose surprise -ln(p_i) is nearest to the entropy, until their probabilities exceed `p`."""
    probabilities = softmax(candidates)
    with np.errstate(divide="ignore"):
        surprise = -np.log(probabilities)
    possible = probabilities > 0
    entropy = np.sum(probabilities[possible] * surprise[possible], dtype=np.float32)
    candidates.take(_leading_run(-np.abs(surprise - entropy), probabilities, p, min_keep, "right"))
    candidates.ordered = False


def top_n_sigma(candidates: Candidates, n: float) -> None:
    """Ban logits below the best one minus `n` standard deviations of all finite ones."""
    if len(candidates.logits) < 2:
        return
    logits = candidates.own()
    finite = logits[logits != -np.inf]
    if len(finite):
        logits[logits < finite.max() - np.float32(n) * finite.std(dtype=np.float32)] = -np.inf


def xtc(candidates: Candidates, probability: float, threshold: float, min_keep: int, random: Mt19937) -> None:
    """With `probability`, drop all tokens of at least `threshold` but the least likely of them."""
    if len(candidates.logits) < 2 or random.uniform_float() > np.float32(probability):
        return
    candidates.order()
    last = int(np.count_nonzero(softmax(candidates) >= np.float32(threshold))) - 1
    if last > 0 and len(candidates.logits) - last >= min_keep:
        candidates.take(np.arange(last, len(candidates.logits)))


def temperature(candidates: Candidates, value: float, spread: float, exponent: float) -> None:
    """Divide the logits by `value`; 0 keeps the best token only, the first of equal ones.

    With a `spread` the divisor lies in value ± spread: at its top when the candidates are equally likely.
    """
    if spread > 0:
        if len(candidates.logits) < 2:
            return
        value = _dynamic(candidates, max(0.0, value - spread), value + spread, exponent)
    divisor = np.float32(value)
    if divisor <= 0:
        best = int(np.argmax(candidates.logits))
        candidates.take(np.array([best]))
    else:
        best = candidates.best()
        logits = candidates.own()
        if not np.isfinite(best / divisor):  # a very small divisor: the probabilities are the same
            logits -= best
        logits /= divisor


def _dynamic(candidates: Candidates, low: float, high: float, exponent: float) -> float:
    candidates.order()
    probabilities = softmax(candidates)
    positive = probabilities[probabilities > 0]
    entropy = -np.sum(positive * np.log(positive), dtype=np.float32)
    share = entropy / np.float32(math.log(len(candidates.logits)))
    return low + (high - low) * float(np.power(np.float32(max(share, 0)), np.float32(exponent)))
