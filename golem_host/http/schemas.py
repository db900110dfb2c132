"""JSON schemas that descriptions of routes are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

STRING: Schema = {"type": ["string", "null"]}
BOOLEAN: Schema = {"type": ["boolean", "null"]}
INTEGER: Schema = {"type": ["integer", "null"]}
NUMBER: Schema = {"type": ["number", "null"]}
OBJECT: Schema = {"type": "object"}


def one_of(*words: str) -> Schema:
    """One of some texts, or nothing."""
    return {"enum": [*words, None]}


def array_of(items: Schema) -> Schema:
    """An array, or nothing."""
    return {"type": ["array", "null"], "items": items}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def body(required: tuple[str, ...] = (), **fields: Schema) -> Schema:
    """An object with at least `required` among `fields`. A trailing underscore keeps a field's name from being a word
    of Python.
    """
    properties = {name.removesuffix("_"): schema for name, schema in fields.items()}
    return {"type": "object", "required": list(required), "properties": properties}


_TYPED = {"message": {"type": "string"}, "type": {"type": "string"}}

ERRORS: Mapping[str, Schema] = {
    "openai": body(
        ("error",),
        error=body(("message", "type", "param", "code"), **_TYPED, param=STRING, code=STRING),
    ),
    "llama": body(("error",), error=body(("code", "message", "type"), **_TYPED, code={"type": "integer"})),
    "ollama": body(("error",), error={"type": "string"}),
    "anthropic": body(("type", "error"), type={"const": "error"}, error=body(("type", "message"), **_TYPED)),
    "detail": body(("detail",), detail={"type": "string"}),
}
"""What an error looks like, by dialect (`envelopes.py`)."""
