"""The end of the act head: whether the model would answer, told from how sure it is.

A few thousand multiplications a question, so they are numpy's. Formula: laya 0.4.15, `common.DecisionModel.forward`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from golem_host_laya.checkpoint import Checkpoint

Row = NDArray[np.float32]


class ActHead:
    """softmax(W2 gelu(W0 [first row, features] + b0) + b2)[0]; what W0 makes of the first row comes from the pass."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        tensors, width = checkpoint.weights.tensors, checkpoint.hparams.encoder.width
        self._features = tensors["act_head.0.weight"].float32()[:, width:].copy()
        self._output = tensors["act_head.2.weight"].float32().copy()
        self._bias = tensors["act_head.2.bias"].float32().copy()

    def __call__(self, logits: Row, inner: Row) -> float:
        """The probability of acting from the (options,) `logits` and the (256,) `inner` sums, biases included."""
        x = inner + self._features @ features(logits)
        x = np.array([0.5 * each * (1 + math.erf(each / math.sqrt(2))) for each in x.tolist()], np.float32)
        return float(softmax(self._output @ x + self._bias)[0])


def features(logits: Row) -> Row:
    """Of the probabilities without a temperature: the largest, how far it is ahead, their entropy as a share of the
    largest possible, and the number of options by 255.
    """
    p = softmax(logits)
    count = max(2, len(p))
    top, second = np.sort(np.append(p, np.float32(0)))[::-1][:2]
    entropy = -np.sum(p * np.log(np.maximum(p, np.float32(1e-9)))) / np.log(np.float32(count))
    return np.array([top, top - second, entropy, count / 255], np.float32)


def softmax(logits: Row) -> Row:
    """Probabilities, in float32."""
    e = np.exp(logits - logits.max())
    return e / e.sum()
