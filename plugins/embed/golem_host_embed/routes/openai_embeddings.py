"""`POST /v1/embeddings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.keep_alive import parse_keep_alive
from golem_host_embed.routes.computing import computed, with_array, written
from golem_host_embed.routes.inputs import read_inputs, tokens_of
from golem_host_embed.routes.llama_embeddings import base64_wanted, native_answer, norm_wanted
from golem_host_embed.routes.vectors import EUCLIDEAN, Rows, as_base64, as_numbers, normalized

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_embed.runtime import EmbedRuntime


async def embeddings(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Vectors of one text or several, in their order."""
    fields = Fields(await read_json(request))
    if not fields.has("input"):
        if fields.has("content"):  # llama-server's field, and its answer
            return await native_answer(request, host, fields)
        raise BadRequest('"input" or "content" must be provided', param="input")
    name = fields.string("model")
    inputs = read_inputs(fields.value("input"), "input")
    as_text = base64_wanted(fields)
    dimensions = fields.integer("dimensions", minimum=1)
    norm = norm_wanted(fields)
    fields.string("user")
    keep_alive = parse_keep_alive(fields.value("keep_alive"))
    model = host.registry.resolve(name, "embed")
    async with host.registry.use(model, keep_alive) as used:
        runtime = cast("EmbedRuntime", used)
        width = require_dimensions(dimensions, runtime)
        rows, count = await computed(
            request, runtime, lambda: tokens_of(inputs, runtime.tokens, "input", runtime.context)
        )
    vectors = normalized(rows[:, :width], EUCLIDEAN if norm is None else norm)
    members = {
        "object": "list",
        "model": model.name,
        "usage": {"prompt_tokens": count, "total_tokens": count},
    }
    return await written(vectors, lambda: with_array(members, "data", _items(vectors, as_text)))


def require_dimensions(wanted: int | None, runtime: EmbedRuntime) -> int:
    """Components of the answer's vectors. Raises `BadRequest` for more than the model has."""
    if wanted is not None and wanted > runtime.width:
        raise BadRequest(
            f"Field 'dimensions': {wanted} is more than the {runtime.width} that model '{runtime.lane.name}' gives",
            param="dimensions",
        )
    return wanted or runtime.width


def _items(vectors: Rows, as_text: bool) -> list[bytes]:
    write = as_base64 if as_text else as_numbers
    return [
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, write(vector))
        for index, vector in enumerate(vectors)
    ]
