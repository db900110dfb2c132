"""Arguments written as plain text between tags: what values they are, by the schema of their parameter."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from golem_host_chat.formats.base import Malformed, parse_json

MAX_LITERAL = 1 << 16
"""Characters of a value in Python's notation that are read; some templates show such values to models."""


def value_of(text: str, parameters: Mapping[str, Any], key: str) -> Any:
    """The value of parameter `key`: the text itself where the schema wants text, else JSON, else Python's notation of
    true, false, null, lists and objects, else the text.
    """
    properties = parameters.get("properties")
    types = types_of(properties.get(key)) if isinstance(properties, dict) else set()
    if types == {"string"}:
        return text
    try:
        value = parse_json(text)
    except Malformed:
        value = _python_value(text)
    if isinstance(value, str) or (value is None and text.strip() not in ("null", "None")):
        return text  # models do not quote text here
    return text if "string" in types and not _kinds(value) & types else value


def _kinds(value: Any) -> set[str]:
    """What a schema calls the type of a value that is no text."""
    if isinstance(value, bool) or value is None:
        return {"null" if value is None else "boolean"}
    if isinstance(value, int | float):
        return {"integer", "number"} if isinstance(value, int) else {"number"}
    return {"array" if isinstance(value, list) else "object"}


def types_of(schema: Any, depth: int = 0) -> set[str]:
    """The JSON types a schema allows, as far as it says."""
    if not isinstance(schema, dict) or depth > 8:
        return set()
    kinds = schema.get("type")
    found = {kinds} if isinstance(kinds, str) else {kind for kind in kinds or () if isinstance(kind, str)}
    for name in ("enum", "const"):
        values = schema.get(name, []) if name == "enum" else [schema[name]] if name in schema else []
        if not found and isinstance(values, list) and values and all(isinstance(value, str) for value in values):
            found = {"string"}
    for name in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(name) or ():
            found |= types_of(choice, depth + 1)
    return found


def texts_of(schema: Any) -> list[str]:
    """The texts that are allowed, where the schema lists them."""
    listed = schema.get("enum", [schema["const"]] if "const" in schema else []) if isinstance(schema, dict) else []
    return listed if isinstance(listed, list) and all(isinstance(value, str) for value in listed) else []


def _python_value(text: str) -> Any:
    text = text.strip()
    if len(text) > MAX_LITERAL or not text.startswith(("{", "[", "True", "False")):
        return None
    try:
        value = ast.literal_eval(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value
