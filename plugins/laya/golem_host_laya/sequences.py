"""A question and the state as one sequence of tokens, cut to the budgets of the checkpoint.

`[CLS] kind question: instructions [SEP] [MASK] option ... [MASK] option [SEP] state [SEP]`, as laya 0.4.15 builds it
(`common.build_head`, `common.build_sequence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from golem_host_laya.questions import InvalidQuestion, Question, as_text
from golem_host_laya.tokens import Tokens

_OPTION_TOKENS = 48
_LEAST_INSTRUCTIONS = 16
"""Tokens that options leave to the instructions, else options are cut."""


@dataclass(frozen=True)
class Row:
    """`ids` with the positions of the options' masks, one a slot. `dropped` are tokens of the state that did not fit;
    `distinct` options still differ, each cut to `per_option` tokens, None where that was not needed.
    """

    ids: list[int]
    markers: list[int]
    dropped: int
    distinct: int
    per_option: int | None


@dataclass(frozen=True)
class Budget:
    """Tokens of a sequence, and of its question."""

    whole: int
    head: int


def build(tokens: Tokens, state: Any, questions: Sequence[Question], budget: Budget) -> tuple[list[Row], int]:
    """The sequences of the questions, and how many tokens the state has.

    Of a list (a conversation) the end is kept, of any other state the beginning. Raises InvalidQuestion when not all
    masks of a question fit.
    """
    texts = [as_text(state)]
    for question in questions:
        texts.append(f"{question.kind.name} question: {question.instructions}")
        texts += [f" {question.options[slot]}" for slot in question.order]
    encoded = iter(tokens.encode(texts))
    state_ids = next(encoded)
    built = []
    for question in questions:
        instructions = next(encoded)
        options = [next(encoded) for _ in question.order]
        built.append(_sequence(tokens, question, instructions, options, state_ids, isinstance(state, list), budget))
    return built, len(state_ids)


def _sequence(
    tokens: Tokens,
    question: Question,
    instructions: list[int],
    options: list[list[int]],
    state: list[int],
    keep_end: bool,
    budget: Budget,
) -> Row:
    slots = [[tokens.mask, *option[:_OPTION_TOKENS]] for option in options]
    left = budget.head - sum(map(len, slots))
    per_option = None
    if left < _LEAST_INSTRUCTIONS:
        per_option = max(4, (budget.head - _LEAST_INSTRUCTIONS) // len(slots))
        slots = [slot[:per_option] for slot in slots]
        left = budget.head - sum(map(len, slots))
    ids = [tokens.first, *instructions[: max(8, left)], tokens.separator]
    markers = []
    for slot in slots:
        markers.append(len(ids))
        ids += slot
    ids.append(tokens.separator)
    room = max(0, budget.whole - len(ids) - 1)
    used = state[max(0, len(state) - room) :] if keep_end else state[:room]
    ids += [*used, tokens.separator]
    kept = [marker for marker in markers if marker < budget.whole]
    if len(kept) < len(slots):
        raise InvalidQuestion(
            f"question {question.id!r}: only {len(kept)} of its {len(slots)} option markers fit in "
            f"max_len={budget.whole} with head_max_len={budget.head} spent on the question; lower head_max_len, raise "
            "max_len, or use fewer options"
        )
    distinct = len(set(map(tuple, slots)))
    return Row(ids[: budget.whole], kept, len(state) - len(used), distinct, per_option)
