"""What an answer must look like: `response_format`, `json_schema`, `grammar`, Ollama's `format`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields, kind_of
from golem_host_chat.constraints.gbnf import GbnfError
from golem_host_chat.constraints.json_schema import SchemaError, json_rule
from golem_host_chat.constraints.lexemes import gbnf_rules

ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class AskedConstraint:
    """What was asked, not compiled yet. `field` is the name it was asked by; `schema` or `gbnf` is there."""

    field: str
    schema: dict[str, Any] | None = None
    gbnf: str = ""

    def rules(self) -> str:
        """Grammar rules, of which `answer` is the first. Takes up to seconds. Raises `BadRequest` that names the field
        and says what cannot be enforced.
        """
        try:
            return gbnf_rules(self.gbnf) if self.schema is None else f"answer: {json_rule(self.schema)}\n"
        except (SchemaError, GbnfError) as error:
            raise _fault(self.field, str(error)) from error


def openai_constraint(fields: Fields) -> AskedConstraint | None:
    """Of the three fields of `/v1`. Raises `BadRequest` for a wrong form, or more than one of them."""
    readers: tuple[Callable[[Fields], AskedConstraint | None], ...] = (_response_format, _json_schema, _grammar)
    asked = [found for read in readers if (found := read(fields)) is not None]
    if len(asked) > 1:
        raise _fault(asked[1].field, f"cannot be given together with '{asked[0].field}'")
    return asked[0] if asked else None


def ollama_constraint(fields: Fields) -> AskedConstraint | None:
    """Of `format`: "json", or a schema; an empty one is "json" too. Raises `BadRequest` for anything else."""
    value = fields.value("format")
    if value is None or value == "":
        return None
    if value == "json":
        return AskedConstraint("format", ANY_OBJECT)
    if not isinstance(value, dict):
        what = repr(value[:40]) if isinstance(value, str) else kind_of(value)
        raise fields.fault("format", f'expected "json" or a JSON schema, got {what}')
    return AskedConstraint("format", value or ANY_OBJECT)


def _response_format(fields: Fields) -> AskedConstraint | None:
    value = fields.object("response_format")
    if value is None:
        return None
    inner = Fields(value, "response_format.")
    match inner.string("type"):
        case "text":
            return None
        case "json_object":
            return AskedConstraint("response_format", inner.object("schema") or ANY_OBJECT)
        case "json_schema":
            given = Fields(inner.object("json_schema") or {}, "response_format.json_schema.")
            schema = given.object("schema")
            if schema is None:
                raise given.fault("schema", "a JSON schema is required")
            return AskedConstraint("response_format", schema)
        case kind:
            what = "none" if kind is None else repr(kind[:40])
            raise inner.fault("type", f"expected 'text', 'json_object' or 'json_schema', got {what}")


def _json_schema(fields: Fields) -> AskedConstraint | None:
    schema = fields.object("json_schema")
    return None if schema is None else AskedConstraint("json_schema", schema)


def _grammar(fields: Fields) -> AskedConstraint | None:
    grammar = fields.string("grammar")
    return AskedConstraint("grammar", gbnf=grammar) if grammar else None


def _fault(field: str, reason: str) -> BadRequest:
    return BadRequest(f"Field '{field}': {reason}", param=field)
