"""What OpenAPI says of the host's own routes."""

from __future__ import annotations

from collections.abc import Mapping

from golem_host.hookspecs import Operation
from golem_host.http.schemas import BOOLEAN, INTEGER, OBJECT, STRING, Schema, array_of, body, either

TEXT = "text/plain"
LINES = "application/x-ndjson"

_MODEL = body(
    ("id", "object", "created", "owned_by"), id=STRING, object={"const": "model"}, created=INTEGER, owned_by=STRING
)
_STATUS = body(status=STRING)
_LISTED = body(
    ("name", "model", "modified_at", "size", "digest", "details"),
    name=STRING, model=STRING, modified_at=STRING, size=INTEGER, digest=STRING, details=OBJECT,
)  # fmt: skip
_LOADED = body(
    ("name", "model", "size", "digest", "details", "expires_at", "size_vram"),
    name=STRING, model=STRING, size=INTEGER, digest=STRING, details=OBJECT, expires_at=STRING, size_vram=INTEGER,
)  # fmt: skip


def _list(name: str, items: Schema) -> Schema:
    return body((name,), **{name: {"type": "array", "items": items}})


_HEALTH = Operation(answer=body(("status",), status=STRING), statuses={503: "Loading, failed or stopping"})

OPERATIONS: Mapping[str, Operation] = {
    "GET /": Operation(gives=TEXT, answer={"type": "string"}),
    "GET /metrics": Operation(
        gives=TEXT, answer={"type": "string"}, statuses={501: "The host was started with --no-metrics"}
    ),
    "GET /health": _HEALTH,
    "GET /v1/health": _HEALTH,
    "GET /api/version": Operation(answer=body(("version",), version=STRING)),
    "GET /v1/models": Operation(answer=_list("data", _MODEL)),
    "GET /models": Operation(answer=_list("data", _MODEL)),
    "GET /v1/models/{name:path}": Operation(answer=_MODEL),
    "GET /api/tags": Operation(answer=_list("models", _LISTED)),
    "GET /api/ps": Operation(answer=_list("models", _LOADED)),
    "POST /api/show": Operation(
        body=body(("model",), model=STRING, verbose=BOOLEAN),
        answer=body(("details", "model_info", "capabilities"), details=OBJECT, model_info=OBJECT),
    ),
    "POST /api/create": Operation(
        body=body(
            ("model",),
            model=STRING,
            from_=STRING,
            modelfile=STRING,
            files={"type": ["object", "null"], "additionalProperties": {"type": "string"}},
            system=STRING,
            template=STRING,
            parameters={"type": ["object", "null"]},
            messages=array_of(
                body(("role", "content"), role={"enum": ["system", "user", "assistant"]}, content=STRING)
            ),
            license=either(STRING, array_of({"type": "string"})),
            stream=BOOLEAN,
        ),
        answer=_STATUS,
        streams=LINES,
    ),
    "POST /api/copy": Operation(body=body(("source", "destination"), source=STRING, destination=STRING), gives=""),
    "DELETE /api/delete": Operation(body=body(("model",), model=STRING), gives=""),
    "POST /api/pull": Operation(body=body(("model",), model=STRING, stream=BOOLEAN), answer=_STATUS, streams=LINES),
    "POST /api/push": Operation(body=body(("model",), model=STRING)),
    "HEAD /api/blobs/{digest:str}": Operation(gives=""),
    "POST /api/blobs/{digest:str}": Operation(
        takes="application/octet-stream",
        body={"type": "string", "format": "binary"},
        gives="",
        statuses={201: "It is kept now (200: it was there)"},
    ),
}
