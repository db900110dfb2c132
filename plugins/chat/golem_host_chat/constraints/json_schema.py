"""JSON schemas as grammars. docs/constraints.md lists what is enforced and what is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from golem_host.http.fields import kind_of
from golem_host_chat.constraints.ecma_pattern import rust_pattern

ENFORCED = (
    "$ref",
    "$defs",
    "definitions",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
)
REFUSED = (
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
)
"""Keywords that would be silently broken. Any other that is not enforced describes and demands nothing."""
FORMATS = ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid")

MAX_CHARACTERS = 1 << 20
"""Of a schema as compact JSON."""
MAX_LEVELS = 10_000
"""Of schemas within schemas, those of all that are referred to together: the compiler calls itself for each."""

MAX_MULTIPLE = 100_000
"""Largest `multipleOf`, its decimal point left out: what is compiled of it has as many states."""

LARGEST_EXACT = 1 << 53
"""Integers beyond it may be rounded: the compiler keeps numbers as doubles."""

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}),
    "propertyNames": (True, {}),
}
_SIZES = ("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties")
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_ONE = ("additionalItems", "additionalProperties")
_SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("$defs", "definitions", "patternProperties", "properties")

_OPTIONS = {
    # Models that are not asked for JSON may write blanks for ever.
    "whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,20}",
    "json_allow_general_unicode_escapes": True,
}


class SchemaError(ValueError):
    """A schema that cannot be enforced; names the keyword and where it is."""


def json_rule(schema: dict[str, Any]) -> str:
    """What follows a rule's name in a grammar, for JSON texts that fit `schema`. Raises `SchemaError`.

    Properties come in the order of the schema, those it does not name after them.
    """
    text = json.dumps(schema, separators=(",", ":"))
    if len(text) > MAX_CHARACTERS:
        raise SchemaError(f"it has {len(text)} characters; at most {MAX_CHARACTERS} are taken")
    own = json.loads(text)
    _Check(own).all()
    own["x-guidance"] = _OPTIONS
    return f"%json {json.dumps(own)}"


class _Check:
    """Looks at every schema within `root`, and writes some of it as the compiler wants it."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._seen: set[int] = set()

    def all(self) -> None:
        waiting: list[tuple[Any, str, str, int]] = [(self._root, "#", "#", 1)]
        levels: dict[str, int] = {}
        """How deep schemas lie within the root, and within each one that is referred to."""
        while waiting:
            node, path, top, level = waiting.pop()
            if isinstance(node, bool) or id(node) in self._seen:
                continue
            if not isinstance(node, dict):
                raise SchemaError(f"a schema is an object or a boolean; {path} is {kind_of(node)}")
            self._seen.add(id(node))
            self._own_keywords(node, path)
            levels[top] = max(level, levels.get(top, 0))
            waiting += [(each, where, top, level + 1) for each, where in self._within(node, path)]
            if isinstance(node.get("$ref"), str):
                waiting.append((self._target(node["$ref"], path), node["$ref"], node["$ref"], 1))
        if sum(levels.values()) > MAX_LEVELS:
            raise SchemaError(f"its schemas lie more than {MAX_LEVELS} levels within each other")

    def _own_keywords(self, node: dict[str, Any], path: str) -> None:
        for keyword in REFUSED:
            if keyword in node:
                if node[keyword] not in _NEUTRAL.get(keyword, ()):
                    raise SchemaError(f"'{keyword}' at {path} is not enforced")
                del node[keyword]
        node.pop("$schema", None)  # one dialect for all
        for keyword in _SIZES:
            if isinstance(node.get(keyword), float) and node[keyword].is_integer():
                node[keyword] = int(node[keyword])
        for keyword in ("const", "enum"):
            if _rounded(node.get(keyword)):
                raise SchemaError(f"'{keyword}' at {path} has an integer beyond 2^53, which would be rounded")
        for keyword in (*_LOWER, *_UPPER):
            if keyword in node:
                node[keyword] = _inward(node[keyword], up=keyword in _LOWER)
        if not _positive(node.get("multipleOf", 1)):
            raise SchemaError(f"'multipleOf' at {path} is not above 0")
        if _digits(node.get("multipleOf")) > MAX_MULTIPLE:
            raise SchemaError(f"'multipleOf' at {path} has too many digits: {MAX_MULTIPLE} is the most, without point")
        kind = node.get("format")
        if isinstance(kind, str) and kind not in FORMATS:
            raise SchemaError(f"format '{kind[:40]}' at {path} is not enforced; {', '.join(FORMATS)} are")
        if isinstance(node.get("pattern"), str):
            node["pattern"] = _pattern(node["pattern"], path)
        if isinstance(node.get("patternProperties"), dict):
            properties = node["patternProperties"].items()
            node["patternProperties"] = {_pattern(name, path): schema for name, schema in properties}

    def _within(self, node: dict[str, Any], path: str) -> Iterator[tuple[Any, str]]:
        for keyword in _ONE:
            if keyword in node:
                yield node[keyword], f"{path}/{keyword}"
        items = node.get("items", True)
        if not isinstance(items, list):
            yield items, f"{path}/items"
        for keyword in (*_SEVERAL, "items"):
            if isinstance(node.get(keyword), list):
                for index, schema in enumerate(node[keyword]):
                    yield schema, f"{path}/{keyword}/{index}"
        for keyword in _NAMED:
            if isinstance(node.get(keyword), dict):
                for name, schema in node[keyword].items():
                    yield schema, f"{path}/{keyword}/{name}"

    def _target(self, reference: str, path: str) -> Any:
        """What a reference points at. Raises `SchemaError` unless it is a pointer into this schema."""
        where = f"'$ref' at {path}"
        if reference != "#" and not reference.startswith("#/"):
            raise SchemaError(f"{where} is '{reference[:80]}'; only '#' and pointers ('#/$defs/name') are followed")
        target: Any = self._root
        for part in unquote(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and re.fullmatch("0|[1-9][0-9]{0,8}", key) and int(key) < len(target):
                target = target[int(key)]
            elif isinstance(target, dict) and key in target:
                target = target[key]
            else:
                raise SchemaError(f"{where} points at nothing: '{reference[:80]}'")
        return target


def _rounded(value: Any) -> bool:
    """Whether a JSON value has an integer that may not be kept as it is."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, int) and abs(each) > LARGEST_EXACT:
            return True
        if isinstance(each, list | dict):
            waiting += each.values() if isinstance(each, dict) else each
    return False


def _inward(bound: Any, *, up: bool) -> Any:
    """A bound that allows nothing `bound` does not: integers become such as a double holds."""
    if not isinstance(bound, int) or not LARGEST_EXACT < abs(bound) < 1 << 1000:
        return bound
    near = float(bound)
    for value in (near, Decimal(repr(near))):  # integers are compiled from the one, other numbers from the other
        if value < bound if up else value > bound:
            return int(math.nextafter(near, math.inf if up else -math.inf))
    return int(near)


def _positive(multiple: Any) -> bool:
    """Whether it is; anything but a number is left to the compiler."""
    return not isinstance(multiple, int | float) or multiple > 0


def _digits(multiple: Any) -> int:
    """The digits of a number, without point and zeros at the end; 0 for anything else."""
    if isinstance(multiple, bool) or not isinstance(multiple, int | float):
        return 0
    digits = "".join(map(str, Decimal(str(multiple)).as_tuple().digits))
    return int(digits.rstrip("0") or 0) if isinstance(multiple, float) else abs(multiple)


def _pattern(pattern: str, path: str) -> str:
    try:
        return rust_pattern(pattern)
    except ValueError as error:
        raise SchemaError(f"the pattern '{pattern[:80]}' at {path} cannot be enforced: {error}") from error
