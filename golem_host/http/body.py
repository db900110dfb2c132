"""Reading a JSON request body, which is hostile input until it is parsed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from golem_host.errors import BadRequest, UnsupportedMediaType
from golem_host.printable import printable

if TYPE_CHECKING:
    from litestar import Request

MAX_DEPTH = 128
"""Deepest nesting of arrays and objects; the body itself counts as 1."""
MAX_VALUES = 4_000_000
"""Most separators and brackets of a body: each may become an object of 50 to 250 bytes in memory. Those inside strings
count too; a text with millions of commas fits no context. As many characters may be escaped (\\uXXXX)."""
MAX_ELEMENTS = 999_999
"""Most elements of one array: no field of any route has use for more."""

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


async def read_json(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The request's body as a JSON object, keys in order.

    Raises BadRequest (missing, not UTF-8, not JSON: says where, not an object, nested deeper than 128, an array of more
    than `MAX_ELEMENTS`, a name twice in one object, half a surrogate pair, NaN, Infinity or a number out of range),
    UnsupportedMediaType for a compressed body or a
    form, and whatever the listener's policy raises while the body arrives.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(f"compressed request bodies are not taken (Content-Encoding: {encoding[:40]})")
    # A browser may send a form's type to any host without asking first, so it must not reach a JSON route.
    if request.headers.get("content-type", "").strip().lower().startswith("multipart/"):
        raise UnsupportedMediaType("this route takes a JSON body, not a form: send Content-Type: application/json")
    return parse_object(await request.body())


def parse_object(raw: bytes, what: str = "the request body", param: str | None = None) -> dict[str, Any]:
    """The JSON object in `raw`, which errors call `what`; see `read_json`."""
    if not raw.strip():
        raise BadRequest("missing request body" if param is None else f"{what} is empty", param=param)
    try:
        return _parsed(raw)
    except _Fault as fault:
        raise BadRequest(f"{what} {fault}", param=param) from None


class _Fault(Exception):
    """What is wrong, to be read after the name of the text."""


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Fault(f"is not UTF-8: byte 0x{raw[error.start]:02x} at {error.start}") from None
    brackets = raw.count(b"[") + raw.count(b"{")
    commas = raw.count(b",")
    if brackets + commas > MAX_VALUES:
        raise _Fault(f"holds more than {MAX_VALUES} values")
    if raw.count(b"\\u") > MAX_VALUES:
        raise _Fault(f"holds more than {MAX_VALUES} escaped characters; send them as UTF-8")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise _Fault(f"is not valid JSON: {error.msg} at {where}") from None
    except ValueError:  # Python reads at most 4300 digits.
        raise _Fault("holds an integer out of range") from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(value, dict):
        raise _Fault(f"must be a JSON object, got {_KINDS.get(type(value), 'null')}")
    if brackets > MAX_DEPTH:
        _check_depth(value)
    if commas >= MAX_ELEMENTS:
        _check_lengths(value)
    if _SURROGATE_ESCAPE.search(raw):
        _check_text(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two values a client meant by one name cannot be told."""
    value = dict(pairs)
    if len(value) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise _Fault(f"names '{printable(twice, 100)}' twice in one object")
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise _Fault(f"is not valid JSON: {word} is not a number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _Fault(f"holds a number out of range: {digits[:40]}")
    return number


def _too_deep() -> _Fault:
    return _Fault(f"is nested deeper than {MAX_DEPTH}")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]


def _check_lengths(value: Any) -> None:
    if isinstance(value, list) and len(value) > MAX_ELEMENTS:
        raise _Fault(f"holds an array of {len(value)} elements; at most {MAX_ELEMENTS} are taken")
    for child in _children(value):
        if isinstance(child, dict | list):
            _check_lengths(child)


def _check_text(value: Any) -> None:
    """Text with half a surrogate pair is none that could be encoded; at most `MAX_DEPTH` calls deep."""
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
    if any(_LONE_SURROGATE.search(text) for text in texts):
        raise _Fault("holds half of a surrogate pair (\\ud800 to \\udfff without its other half)")
    for child in _children(value):
        if isinstance(child, str | dict | list):
            _check_text(child)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
