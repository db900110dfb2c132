"""The questions of a request: what may be asked, refused in the words of laya's own server, and the texts that the
model reads.

Source: laya 0.4.15, `Agent._check_question`, `common.render_options`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

Refuse = Callable[[str], "InvalidQuestion"]

_LABELS = "noul labels must map exactly 'false' and 'true' to distinct non-empty strings"
_DEFAULTS = {"false": "no, the statement does not hold", "true": "yes, the statement holds"}


class Kind(IntEnum):
    """Kinds of questions, numbered as the model's table of them."""

    choice = 0
    score = 1
    noul = 2


class InvalidQuestion(ValueError):
    """A question that cannot be answered; the text names it and what to fix."""


@dataclass(frozen=True)
class Question:
    """One question, checked.

    `options` are the texts of its options; `keys` their names in the answer (labels of a choice, texts of a score's
    levels). `order` says which option each slot of the sequence shows.
    """

    id: str
    kind: Kind
    instructions: str
    options: tuple[str, ...]
    keys: tuple[Any, ...]
    order: tuple[int, ...]


def read_questions(questions: Mapping[str, Any]) -> list[Question]:
    """The questions of a request in its order. Raises InvalidQuestion for the first that cannot be answered."""
    return [_question(name, value) for name, value in questions.items()]


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _question(name: str, value: Any) -> Question:
    if not name.strip():
        raise InvalidQuestion(f"question id must be a non-empty string, got {name!r}")

    def refuse(reason: str) -> InvalidQuestion:
        return InvalidQuestion(f"question {name!r}: {reason}")

    if not isinstance(value, dict):
        raise refuse(f"definition must be a dict, got {type(value).__name__}")
    word = value.get("type")
    if not isinstance(word, str) or word not in Kind.__members__:
        raise refuse(f"unknown type {word!r}; use one of {sorted(Kind.__members__)}")
    _check_instructions(value, refuse)
    kind = Kind[word]
    criteria: Any = value.get("criteria")
    {Kind.choice: _check_choice, Kind.score: _check_score, Kind.noul: _check_noul}[kind](criteria, refuse)
    count = 2 if kind is Kind.noul else len(criteria)
    order = _order(value, count, refuse)
    if "labels" in value and kind is not Kind.noul:
        raise refuse("'labels' is only supported for noul questions")
    if kind is Kind.choice:
        described = criteria if isinstance(criteria, dict) else dict.fromkeys(criteria)
        keys = tuple(described)
        options = tuple(_option(label, text) for label, text in described.items())
    elif kind is Kind.score:
        keys = tuple(map(as_text, criteria))
        options = tuple(f"level {level}: {text}" for level, text in enumerate(keys))
    else:
        keys = _noul_labels(value.get("labels"), refuse)
        texts = {str(key).lower(): text for key, text in (criteria or {}).items()}
        options = tuple(
            f"{label}: {_DEFAULTS[word] if texts.get(word) in (None, '') else as_text(texts[word])}"
            for label, word in zip(keys, ("false", "true"), strict=True)
        )
    return Question(name, kind, as_text(value["instructions"]), options, keys, order)


def _option(label: Any, text: Any) -> str:
    return str(label) if text is None or text == "" else f"{label}: {as_text(text)}"


def _check_instructions(value: Mapping[str, Any], refuse: Refuse) -> None:
    add = "add the text the model should answer"
    if "instructions" not in value:
        raise refuse(f"no 'instructions'; {add}")
    text = value["instructions"]
    if text is None:
        raise refuse(f"'instructions' must not be None; {add}")
    if (isinstance(text, str) and not text.strip()) or (isinstance(text, list | dict) and not text):
        raise refuse(f"'instructions' must not be empty; {add}")


def _check_choice(criteria: Any, refuse: Refuse) -> None:
    if not isinstance(criteria, dict | list):
        raise refuse("a choice question takes 'criteria' as a dict of label -> description, or a list of labels")
    if not criteria:
        raise refuse("a choice question needs at least one criterion")
    first: dict[Any, int] = {}
    for at, label in enumerate(criteria):
        if label is None:
            raise refuse(
                f"choice label {at} is null; a label is rendered as option text and used as the answer key, so it must "
                'be a string, number or bool -- a null label renders as the text "None" while its answer key is "null"'
            )
        if not isinstance(label, str | int | float | bool):
            raise refuse(
                f"choice label {at} is a {type(label).__name__}; a label is rendered as option text and used as the "
                f"answer key, so it must be a scalar (a string, number or bool), got {label!r}"
            )
    for at, label in enumerate(criteria):
        if label in first:
            raise refuse(
                f"choice label {at} ({label!r}) repeats label {first[label]}; the labels are the answer keys, so every "
                "option needs its own (1, 1.0 and True are one key)"
            )
        first[label] = at


def _check_score(criteria: Any, refuse: Refuse) -> None:
    if not isinstance(criteria, list):
        raise refuse("a score question takes 'criteria' as a list of level descriptions, index 0 first")
    if not criteria:
        raise refuse("a score question needs at least one level")
    if None in criteria:
        raise refuse(f"score level {criteria.index(None)} is null; give every level a description, index 0 first")


def _check_noul(criteria: Any, refuse: Refuse) -> None:
    if criteria is None:
        return
    if not isinstance(criteria, dict):
        raise refuse(
            "a noul question takes 'criteria' as a dict with optional 'true'/'false' descriptions, or omits it"
        )
    keys = {key.lower() for key in criteria}
    if not keys <= {"true", "false"}:
        raise refuse(
            "a noul question takes 'criteria' keyed only 'true'/'false' (either or both, and omitted is fine), got "
            f"{sorted(keys)}. Those keys are the option texts the model reads; any other key was silently dropped and "
            "replaced with the defaults. If you want the answer worded differently, keep 'criteria' keyed "
            "'true'/'false' and set 'labels' instead."
        )


def _order(value: Mapping[str, Any], count: int, refuse: Refuse) -> tuple[int, ...]:
    """Which option each slot shows; raises for anything but a permutation."""
    if "option_order" not in value:
        return tuple(range(count))
    order = value["option_order"]
    numbers = [each for each in order if type(each) is int] if isinstance(order, list) else []
    if not isinstance(order, list) or len(order) != count or sorted(numbers) != list(range(count)):
        raise refuse(
            f"'option_order' must be a permutation of range({count}) -- one slot per option, each option once -- got "
            f"{order!r}"
        )
    return tuple(numbers)


def _noul_labels(labels: Any, refuse: Refuse) -> tuple[str, str]:
    if labels is None:
        return "false", "true"
    if not isinstance(labels, dict) or labels.keys() != _DEFAULTS.keys():
        raise refuse(_LABELS)
    found = [labels["false"], labels["true"]]
    if not all(isinstance(each, str) and each.strip() for each in found) or found[0].strip() == found[1].strip():
        raise refuse(_LABELS)
    return found[0].strip(), found[1].strip()
