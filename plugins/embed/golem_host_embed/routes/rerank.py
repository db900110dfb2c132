"""`POST /v1/rerank` and llama-server's other names for it: documents scored against a query.

With `documents` the answer has Jina's shape, with `texts` that of Hugging Face's text-embeddings-inference (TEI).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest, NotFound
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.http.writing import json_response
from golem_host.registry import Model
from golem_host_embed.routes.computing import computed
from golem_host_embed.routes.inputs import TextTooLong, require_count
from golem_host_embed.tokens import Tokens

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_embed.runtime import EmbedRuntime


async def rerank(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """The documents' indices with their scores, the best first."""
    fields = Fields(await read_json(request))
    query = _query(fields)
    field = "documents" if fields.has("documents") or not fields.has("texts") else "texts"
    documents = _documents(fields, field)
    top_n = fields.integer("top_n", len(documents), minimum=1)
    with_texts = fields.boolean("return_documents" if field == "documents" else "return_text", False)
    fields.refuse("truncate", "a pair that is too long is refused", neutral=(False,))
    keep_alive = parse_keep_alive(fields.value("keep_alive"))
    model = _model(host, fields.string("model"))
    async with host.registry.use(model, keep_alive) as used:
        runtime = cast("EmbedRuntime", used)
        rows, count = await computed(request, runtime, lambda: _pairs(query, documents, field, runtime))
    scores = rows[:, 0].tolist()
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[:top_n]
    if field == "texts":
        return json_response(
            [{"index": at, "score": scores[at], **({"text": documents[at]} if with_texts else {})} for at in best]
        )
    results = [
        {
            "index": at,
            "relevance_score": scores[at],
            **({"document": {"text": documents[at]}} if with_texts else {}),
        }
        for at in best
    ]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return json_response({"model": model.name, "object": "list", "usage": usage, "results": results})


def _query(fields: Fields) -> str:
    value = fields.value("query")
    if value is None:
        raise BadRequest('"query" must be provided', param="query")
    if not isinstance(value, str):
        raise BadRequest('"query" must be a string', param="query")
    return value


def _documents(fields: Fields, field: str) -> list[str]:
    value = fields.value(field)
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise BadRequest(f'"{field}" must be a non-empty string array', param=field)
    require_count(value, field)
    return value


def _model(host: Host, name: str | None) -> Model:
    if not any(model.kind == "rerank" for model in host.registry.models()):
        raise NotFound("no reranker is served; give a cross-encoder with --embed-model", code="model_not_found")
    return host.registry.resolve(name, "rerank")


def _pairs(query: str, documents: list[str], field: str, runtime: EmbedRuntime) -> list[Tokens]:
    pairs = []
    for index, pair in enumerate(runtime.tokens.pairs(query, documents, runtime.context)):
        if len(pair) > runtime.context:
            raise TextTooLong(f"'query' with text {index} of '{field}'", field, pair, runtime.context)
        pairs.append(pair)
    return pairs
