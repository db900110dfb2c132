"""Answers from logits: calibrated probabilities and what is told of them.

Source: laya 0.4.15, `Agent._decode_answers`, `common.confidence_from_probs`, `confidence.jev_confidence`; all numbers
rounded to four decimals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host_laya.abstention import size_of
from golem_host_laya.act_head import softmax
from golem_host_laya.checkpoint import Hparams
from golem_host_laya.passes import Decision
from golem_host_laya.questions import Kind, Question
from golem_host_laya.sequences import Row

MODEL = "laya-rl-agent"
DIGITS = 4


def nothing_asked() -> dict[str, Any]:
    """The answer to a request without questions."""
    return {"model": MODEL, "answers": {}, "usage": {"input_tokens": 0, "output_tokens": 0}}


def result(
    hparams: Hparams, questions: Sequence[Question], rows: Sequence[Row], state_tokens: int, decisions: list[Decision]
) -> dict[str, Any]:
    """The whole answer of a request about one state."""
    answers = {
        question.id: answer(hparams, question, decision)
        for question, decision in zip(questions, decisions, strict=True)
    }
    return {"model": MODEL, "answers": answers, "usage": _usage(questions, rows, state_tokens)}


def answer(hparams: Hparams, question: Question, decision: Decision) -> dict[str, Any]:
    """The answer to one question."""
    p = probabilities(hparams, question, decision.logits)
    largest = float(p.max())
    ends = {
        "answer_confidence": round(largest, DIGITS),
        "action": {"act_probability": round(decision.act, DIGITS)},
    }
    if question.kind is Kind.noul:
        true = float(p[1])
        sure = round(max(true, 1.0 - true), DIGITS)
        return {"type": "noul", "noul": round(true, DIGITS), "confidence": sure, **ends}
    rounded = [round(float(each), DIGITS) for each in p]
    ends = {"confidence": round(_confidence(p), DIGITS), **ends, "x_jev_confidence": _jev(question.kind, rounded)}
    if question.kind is Kind.choice:
        return {
            "type": "choice",
            "choice": question.keys[int(p.argmax())],
            "probabilities": dict(zip(question.keys, rounded, strict=True)),
            **ends,
        }
    return {
        "type": "score",
        "score": round(float((np.arange(len(p)) * p).sum()), DIGITS),
        "legend": {str(level): text for level, text in enumerate(question.keys)},
        "probabilities": {str(level): each for level, each in enumerate(rounded)},
        **ends,
    }


def probabilities(hparams: Hparams, question: Question, logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Calibrated probabilities by option, from the logits by slot: softmax(logits / temperature)."""
    bucket = f"{question.kind.name}:{size_of(len(logits))}"
    temperature = hparams.bucket_temperatures.get(bucket, hparams.temperatures[question.kind])
    p = np.empty_like(logits)
    p[list(question.order)] = softmax(logits / np.float32(temperature))
    return p


def _confidence(p: NDArray[np.float32]) -> float:
    """1 - entropy / ln(options), within 0 and 1."""
    if len(p) < 2:
        return 1.0
    entropy = -float((p * np.log(np.clip(p, 1e-12, 1.0))).sum())
    return min(1.0, max(0.0, 1.0 - entropy / math.log(len(p))))


def _jev(kind: Kind, rounded: list[float]) -> float:
    """How sure TypeSafe's Jev would call itself: by the largest of a choice, by the spread around a score's mode."""
    count, total = len(rounded), sum(rounded)
    if count == 1:
        return 1.0
    p = [each / total for each in rounded] if total else [1 / count] * count
    if kind is Kind.choice:
        return round((max(p) - 1 / count) / (1 - 1 / count), DIGITS)
    mode = p.index(max(p))
    spread = sum(each * abs(level - mode) for level, each in enumerate(p))
    centre = (count - 1) / 2
    uniform = sum(abs(level - centre) for level in range(count)) / count
    return round(max(0.0, 1.0 - spread / uniform), DIGITS)


def _usage(questions: Sequence[Question], rows: Sequence[Row], state_tokens: int) -> dict[str, Any]:
    dropped = max(row.dropped for row in rows)
    usage: dict[str, Any] = {
        "input_tokens": sum(len(row.ids) for row in rows),
        "output_tokens": 0,
        "state_tokens": state_tokens,
        "state_tokens_dropped": dropped,
        "truncated": dropped > 0,
        "truncated_questions": [question.id for question, row in zip(questions, rows, strict=True) if row.dropped],
    }
    alike = {
        question.id: {"total": len(row.markers), "distinct": row.distinct, "tokens_per_option": row.per_option}
        for question, row in zip(questions, rows, strict=True)
        if row.distinct < len(row.markers)
    }
    return {**usage, "options": alike} if alike else usage
