"""What OpenAPI says of the embed plugin's routes. The README's tables say what becomes of each field."""

from __future__ import annotations

from collections.abc import Mapping

from golem_host.api import Operation
from golem_host.http.schemas import BOOLEAN, INTEGER, NUMBER, OBJECT, STRING, Schema, array_of, body, either, one_of

_IDS: Schema = {"type": "array", "minItems": 1, "items": {"type": "integer"}}
_INPUT = either(
    {"type": "string"},
    {"type": "array", "minItems": 1, "items": {"type": "string"}},
    _IDS,
    {"type": "array", "minItems": 1, "items": _IDS},
)
_KEEP_ALIVE = either(STRING, NUMBER)
_NATIVE = Operation(
    body=body(content=_INPUT, input=_INPUT, embd_normalize=INTEGER, model=STRING),
    answer={"type": "array", "items": body(("index", "embedding"), index={"type": "integer"})},
)
_TEXTS: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_RERANK = Operation(
    body=body(
        ("query",), query={"type": "string"}, documents=_TEXTS, texts=_TEXTS, top_n=INTEGER, return_text=BOOLEAN,
        model=STRING,
    ),
    answer=either(body(("results",), results=array_of(OBJECT)), {"type": "array"}),
)  # fmt: skip

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/embeddings": Operation(
        body=body(
            ("input",), input=_INPUT, model=STRING, encoding_format=one_of("float", "base64"), dimensions=INTEGER,
        ),
        answer=body(("object", "data", "model", "usage"), object={"const": "list"}, data=array_of(OBJECT)),
    ),
    "POST /api/embed": Operation(
        body=body(
            ("model",), model={"type": "string"}, input=either(STRING, array_of({"type": "string"})), truncate=BOOLEAN,
            dimensions=INTEGER, keep_alive=_KEEP_ALIVE, options={"type": ["object", "null"]},
        ),
        answer=body(("model", "embeddings"), embeddings={"type": "array"}),
    ),
    "POST /api/embeddings": Operation(
        body=body(("model",), model={"type": "string"}, prompt=STRING, keep_alive=_KEEP_ALIVE),
        answer=body(("embedding",), embedding={"type": "array", "items": {"type": "number"}}),
    ),
    **dict.fromkeys(("POST /embedding", "POST /embeddings"), _NATIVE),
    **dict.fromkeys(("POST /v1/rerank", "POST /v1/reranking", "POST /rerank", "POST /reranking"), _RERANK),
}  # fmt: skip
