"""How likely the tokens of an answer were."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golem_host.ops.largest import largest
from golem_host_chat.scores import Scores

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Probabilities:
    """What an answer is to tell of each token: its probability and those of the `top` likeliest.

    Natural logarithms over the whole vocabulary, before anything sampling does; with `after`, the probabilities among
    the tokens that sampling left.
    """

    top: int
    after: bool = False


@dataclass(frozen=True)
class Likelihood:
    """Of a drawn token: `value`, and (id, value) of the likeliest, falling. Logarithms are finite, float32."""

    value: float
    top: tuple[tuple[int, float], ...]


def of_model(scores: Scores, row: int, token: int, top: int) -> Likelihood:
    """What the model itself thought of `token`: log softmax of a row of `scores`, summed in float64."""
    logits = scores.logits[row]
    best = logits[scores.best[row]]
    with np.errstate(over="ignore", under="ignore"):
        total = math.log(np.exp(logits - best).sum(dtype=np.float64))

    def value(logit: np.float32) -> float:
        return float(np.float32(max(float(logit) - float(best) - total, _LOWEST)))

    likeliest = ((), ()) if not top else largest(logits, min(top, len(logits)), scores.maxima[row])
    return Likelihood(
        value(logits[token]), tuple((int(id), value(logit)) for id, logit in zip(*likeliest, strict=True))
    )


def of_candidates(
    ids: NDArray[np.int32] | None, probabilities: NDArray[np.float32], token: int, top: int
) -> Likelihood:
    """What sampling left: `probabilities` (n,) of `ids` (None: of all tokens); impossible ones are left out."""
    order = np.argsort(-probabilities, kind="stable")[:top]
    order = order[probabilities[order] > 0]
    names = order if ids is None else ids[order]
    own = probabilities[token : token + 1] if ids is None else probabilities[ids == token]
    return Likelihood(float(own.sum()), tuple(zip(names.tolist(), probabilities[order].tolist(), strict=True)))
