"""Ollama's `POST /api/embed` and its older `POST /api/embeddings`."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest, NotFound
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.http.ollama_options import known_options
from golem_host.http.requestlog import log_note
from golem_host.registry import KeepAlive, Model
from golem_host_embed.routes.computing import computed, with_array, written
from golem_host_embed.routes.inputs import require_count
from golem_host_embed.routes.vectors import Rows, as_numbers, unit
from golem_host_embed.tokens import Tokens

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_embed.runtime import EmbedRuntime

log = logging.getLogger("golem_host.embed")

_LARGEST = 2**31 - 1


async def embed(request: Request[Any, Any, Any], host: Host) -> Response[bytes] | dict[str, Any]:
    """Unit vectors of one text or several; without a text the model is loaded, or unloaded with `keep_alive` 0."""
    started = time.monotonic_ns()
    fields = Fields(await read_json(request))
    texts = _texts(fields)
    truncate = fields.boolean("truncate", True)
    dimensions = fields.integer("dimensions", 0)
    num_ctx = _context_wanted(fields)
    keep_alive = parse_keep_alive(fields.value("keep_alive"))
    name = fields.string("model", "")
    if not name:
        raise NotFound("model '' not found", param="model", code="model_not_found")
    model = host.registry.resolve(name, "embed")
    if not texts:
        await _load_or_unload(host, model, keep_alive)
        return {"model": name, "embeddings": []}
    async with host.registry.use(model, keep_alive) as used:
        runtime = cast("EmbedRuntime", used)
        load_ns = time.monotonic_ns() - started
        limit = _limit(num_ctx, runtime)
        rows, count = await _computed(request, runtime, texts, limit, truncate=truncate)
    vectors = unit(rows, dimensions if 0 < dimensions < runtime.width else None)
    members = {"model": name, "total_duration": time.monotonic_ns() - started, "load_duration": load_ns}
    members["prompt_eval_count"] = count
    return await written(vectors, lambda: with_array(members, "embeddings", [as_numbers(row) for row in vectors]))


async def embeddings(request: Request[Any, Any, Any], host: Host) -> dict[str, Any]:
    """The vector of one text as it was pooled; a text that is too long is cut."""
    fields = Fields(await read_json(request))
    prompt = fields.string("prompt", "")
    num_ctx = _context_wanted(fields)
    keep_alive = parse_keep_alive(fields.value("keep_alive"))
    name = fields.string("model", "")
    if not name:
        raise BadRequest("model is required", param="model")
    model = host.registry.resolve(name, "embed")
    if not prompt:
        await _load_or_unload(host, model, keep_alive)
        return {"embedding": []}
    async with host.registry.use(model, keep_alive) as used:
        runtime = cast("EmbedRuntime", used)
        rows, _ = await _computed(request, runtime, [prompt], _limit(num_ctx, runtime), truncate=True)
    return {"embedding": rows[0].tolist()}


async def _computed(
    request: Request[Any, Any, Any], runtime: EmbedRuntime, texts: list[str], limit: int, *, truncate: bool
) -> tuple[Rows, int]:
    """The rows of the texts and their tokens, those over `limit` cut. Raises `BadRequest` for one that must not be."""
    cut = 0

    def prepare() -> list[Tokens]:
        nonlocal cut
        found = []
        for text in runtime.tokens.texts(texts, limit):
            if len(text) > limit:
                cut += 1
                if not truncate:
                    raise BadRequest("the input length exceeds the context length", param="input")
            found.append(runtime.tokens.cut(text, limit))
        return found

    found = await computed(request, runtime, prepare)
    if cut:
        log.info("%s: texts that had more than %d tokens and were cut: %d", runtime.lane.name, limit, cut)
        log_note(request).extra["texts cut"] = cut
    return found


def _texts(fields: Fields) -> list[str]:
    """The texts of `input`; none when there is nothing to embed."""
    value = fields.value("input")
    if value is None or value == "":
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest("invalid input type", param="input")
    require_count(texts, "input")
    return texts


def _context_wanted(fields: Fields) -> int | None:
    return known_options(fields).integer("num_ctx", minimum=0, maximum=_LARGEST) or None


def _limit(num_ctx: int | None, runtime: EmbedRuntime) -> int:
    """Tokens a text may have: what the model takes, or less when `num_ctx` says so."""
    least = runtime.tokens.frame.size + 1
    return max(least, min(num_ctx or runtime.context, runtime.context))


async def _load_or_unload(host: Host, model: Model, keep_alive: KeepAlive) -> None:
    if keep_alive == 0:
        await host.registry.unload(model)
    else:
        await host.registry.load(model, keep_alive)
