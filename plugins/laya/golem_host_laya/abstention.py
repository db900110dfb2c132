"""Marking answers that are less sure than the caller wants (laya 0.4.15, `laya.confidence`)."""

from __future__ import annotations

import math
from typing import Any

from golem_host_laya.questions import Kind

SIZES = ("2", "3-5", "6-10", "11+")
_BUCKETS = {f"{kind.name}:{size}" for kind in Kind for size in SIZES} | {"default"}

Threshold = float | dict[str, float]


def size_of(count: int) -> str:
    """The bucket of a number of options."""
    return SIZES[0] if count <= 2 else SIZES[1] if count <= 5 else SIZES[2] if count <= 10 else SIZES[3]


def read_threshold(value: Any) -> Threshold | None:
    """A `min_confidence`: a number for all answers, or numbers by bucket. Raises ValueError for anything else."""
    if value is None:
        return None
    if not isinstance(value, dict):
        return _number(value)
    if not value:
        raise ValueError(f"a min_confidence map must be a non-empty dict of bucket -> float, got {value!r}")
    found = {}
    for key, each in value.items():
        if key not in _BUCKETS:
            raise ValueError(f"min_confidence map keys must be a bucket like 'choice:3-5' or 'default', got {key!r}")
        found[key] = _number(each)
    return found


def mark(answer: dict[str, Any], threshold: Threshold | None) -> None:
    """Say in an answer whether it reaches the threshold, where there is one."""
    if threshold is None:
        return
    if isinstance(threshold, dict):
        bucket = f"{answer['type']}:{size_of(len(answer.get('probabilities', ())))}"
        threshold = threshold.get(bucket, threshold.get("default", 0.0))
    below = answer["answer_confidence"] < threshold
    if below:
        answer["low_confidence"] = True
    answer["abstention"] = "abstained" if below else "passed"
    answer["abstention_threshold"] = threshold


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError(f"min_confidence must be a float in [0.0, 1.0], got {value!r}")
    return float(value)
