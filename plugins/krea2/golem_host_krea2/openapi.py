"""What OpenAPI says of the krea2 plugin's routes. The README's table says what becomes of each field."""

from __future__ import annotations

from collections.abc import Mapping

from golem_host.api import Operation
from golem_host.http.schemas import BOOLEAN, INTEGER, NUMBER, STRING, array_of, body, either, one_of

_PICTURE = body(("b64_json", "seed"), b64_json={"type": "string"}, seed={"type": "integer"})

OPERATIONS: Mapping[str, Operation] = {
    "POST /v1/images/generations": Operation(
        body=body(
            ("prompt",),
            prompt={"type": "string", "minLength": 1},
            model=STRING,
            negative_prompt=STRING,
            n={"enum": [1, None]},
            size=either({"type": "string", "pattern": "^[0-9]{1,5}x[0-9]{1,5}$"}, one_of("auto")),
            response_format=one_of("b64_json"),
            steps=INTEGER,
            cfg=NUMBER,
            seed=INTEGER,
            stream=BOOLEAN,
            partial_images=INTEGER,
            progress_id=STRING,
            user=STRING,
            keep_alive=either(STRING, NUMBER),
        ),
        answer=body(("created", "data"), created={"type": "integer"}, data=array_of(_PICTURE)),
        streams="text/event-stream",
    ),
    "GET /v1/images/progress/{id:str}": Operation(
        answer=body(
            ("id", "status", "step", "steps", "fraction"),
            id={"type": "string"},
            status={"type": "string"},
            step={"type": "integer"},
            steps={"type": "integer"},
            fraction={"type": "number"},
        ),
        statuses={404: "No such picture"},
    ),
}
