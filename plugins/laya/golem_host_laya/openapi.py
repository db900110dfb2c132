"""What OpenAPI says of the laya plugin's routes. The README's tables say what becomes of each field."""

from __future__ import annotations

from collections.abc import Mapping

from golem_host.api import Operation
from golem_host.http.schemas import STRING, Schema, body

_QUESTIONS: Schema = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": body(
        ("type",), type={"enum": ["choice", "score", "noul"]}, instructions=STRING, criteria={}
    ),
}
_STATUSES = {422: "A question, a state or its options cannot be read, or do not fit"}

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/systemone": Operation(
        body=body(("state", "questions"), state={}, questions=_QUESTIONS, model=STRING), statuses=_STATUSES
    ),
    "POST /v1/systemone/batch": Operation(
        body=body(("states", "questions"), states={"type": "array"}, questions=_QUESTIONS, model=STRING),
        statuses=_STATUSES,
    ),
}
