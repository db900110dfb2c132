"""Reading a request as laya's own server reads it: the same limits, in the same order, refused in the same words.

Source: laya 0.4.15, `laya.serve`. The body may have 1 MiB here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litestar import Request

from golem_host.errors import BadRequest, PayloadTooLarge, Unprocessable
from golem_host_laya.abstention import Threshold, read_threshold
from golem_host_laya.checkpoint import MAX_LEN
from golem_host_laya.questions import as_text

MAX_BODY_BYTES = 1 << 20
MAX_QUESTIONS = 64
MAX_STATES = 64
MAX_STATE_CHARS = 50_000
MAX_CHOICE_OPTIONS = 100
MAX_SCORE_LEVELS = 32
MAX_OPTIONS = 512

_HOOKS = ("hooks", "hooks_raise", "hooks_timeout", "on_predict_end", "on_predict_start")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PROBED = 64
"""Values of a state that are looked at before it is written as JSON."""


@dataclass(frozen=True)
class Controls:
    """What a request may set beside its questions: budgets in tokens other than the checkpoint's, and how sure an
    answer must be.
    """

    whole: int | None
    head: int | None
    threshold: Threshold | None


async def read_body(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The body, an object with `questions`. Raises PayloadTooLarge and BadRequest."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise _too_large()
    raw = await request.body()
    if len(raw) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequest("request body must be valid JSON") from None
    return body if isinstance(body, dict) else {}


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge("request body too large")


def check_single(body: Mapping[str, Any]) -> None:
    """Raise for a body that `/v1/systemone` does not take, up to its questions' definitions."""
    if "questions" not in body:
        raise BadRequest("request body must be an object with a 'questions' field")
    _check_limits(body.get("state"), body["questions"])
    _refuse_hooks(body)
    _check_text(body)


def check_batch(body: Mapping[str, Any]) -> None:
    """The same for `/v1/systemone/batch`."""
    if "questions" not in body or "states" not in body:
        raise BadRequest("request body must be an object with 'states' and 'questions' fields")
    states = body["states"]
    if not isinstance(states, list) or not states:
        raise BadRequest("'states' must be a non-empty list")
    if len(states) > MAX_STATES:
        raise PayloadTooLarge(f"too many states in batch ({len(states)} > {MAX_STATES})")
    for state in states:
        _check_limits(state, body["questions"])
    _refuse_hooks(body)
    if body.get("diagnostics") is not None:
        raise Unprocessable(
            "diagnostics is filled in place for an in-process caller and cannot be returned over HTTP; read the "
            "per-group report from the CLI or a local Router"
        )
    _check_text(body)


def read_controls(body: Mapping[str, Any]) -> Controls:
    """Raises Unprocessable for a control that is not of its kind."""
    whole, head = (_budget(body, key) for key in ("max_len", "head_max_len"))
    for key in ("lang", "lang_guess"):
        if body.get(key) is not None and not isinstance(body[key], str):
            raise Unprocessable(f'{key} must be a language code string such as "de", or null')
    try:
        return Controls(whole, head, read_threshold(body.get("min_confidence")))
    except ValueError as error:
        raise Unprocessable(str(error)) from None


def check_batch_controls(body: Mapping[str, Any]) -> None:
    """`batch_size` and `sort_by_length` shape laya's passes; here they change nothing and are only checked."""
    size, sort = body.get("batch_size"), body.get("sort_by_length")
    if size is not None and type(size) is not int:
        raise Unprocessable("batch_size must be an integer")
    if size is not None and size < 1:
        raise Unprocessable(f"batch_size must be a positive integer, got {size!r}")
    if sort is not None and not isinstance(sort, bool):
        raise Unprocessable("sort_by_length must be a boolean")


def _budget(body: Mapping[str, Any], key: str) -> int | None:
    value = body.get(key)
    if value is None:
        return None
    if type(value) is not int:
        raise Unprocessable(f"{key} must be an integer")
    if value <= 0:
        raise Unprocessable(f"{key} must be a positive integer")
    if value > MAX_LEN:
        raise Unprocessable(f"{key} exceeds server limit ({value} > {MAX_LEN})")
    return value


def _check_limits(state: Any, questions: Any) -> None:
    if state is None:
        raise BadRequest("'state' is required")
    if not isinstance(questions, dict):
        raise BadRequest("'questions' must be an object")
    if len(questions) > MAX_QUESTIONS:
        raise PayloadTooLarge(f"too many questions ({len(questions)} > {MAX_QUESTIONS})")
    options = sum(_options(name, question) for name, question in questions.items() if isinstance(question, dict))
    if options > MAX_OPTIONS:
        raise PayloadTooLarge(f"too many answer options across questions ({options} > {MAX_OPTIONS})")
    length = _state_length(state)
    if length > MAX_STATE_CHARS:
        raise PayloadTooLarge(f"state too large ({length} > {MAX_STATE_CHARS} chars)")


def _options(name: str, question: Mapping[str, Any]) -> int:
    """How many options a choice or a score has, within their limits."""
    kind, criteria = question.get("type"), question.get("criteria")
    if kind == "choice" and isinstance(criteria, dict | list):
        if len(criteria) > MAX_CHOICE_OPTIONS:
            raise PayloadTooLarge(f"too many choice options for {name!r} ({len(criteria)} > {MAX_CHOICE_OPTIONS})")
        return len(criteria)
    if kind == "score" and isinstance(criteria, list):
        if len(criteria) > MAX_SCORE_LEVELS:
            raise PayloadTooLarge(f"too many score levels for {name!r} ({len(criteria)} > {MAX_SCORE_LEVELS})")
        if None in criteria:
            at = criteria.index(None)
            raise Unprocessable(
                f"score question {name!r} has a null level at index {at}; give every level a description"
            )
        return len(criteria)
    return 0


def _state_length(state: Any) -> int:
    """Characters of the state as the model reads it; of one that is surely too long, those of its first strings."""
    if isinstance(state, str):
        return len(state)
    total, waiting = 0, [state]
    for _ in range(_PROBED):
        if not waiting:
            break
        each = waiting.pop()
        if isinstance(each, str):
            total += len(each)
            if total > MAX_STATE_CHARS:
                return total
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        else:
            break  # a number says nothing of strings
    try:
        return len(as_text(state))
    except RecursionError:
        raise BadRequest("'state' must be JSON-serializable") from None


def _refuse_hooks(body: Mapping[str, Any]) -> None:
    given = [key for key in _HOOKS if body.get(key) is not None]
    if given:
        raise Unprocessable(
            f"{', '.join(given)} run inside the server process and cannot be sent to this endpoint; install them where "
            "laya-serve runs, or drop them"
        )


def _check_text(body: Mapping[str, Any]) -> None:
    """Raise for half of a surrogate pair, which no tokenizer reads. No recursion: bodies may be nested deeply."""
    waiting: list[Any] = [body]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if _LONE_SURROGATE.search(each):
                raise BadRequest("request body contains an unpaired surrogate escape; those cannot be encoded as UTF-8")
        elif isinstance(each, dict):
            waiting.extend(each.keys())
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
