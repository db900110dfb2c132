"""llama-server's `POST /embedding` and `/embeddings`: an array, each vector inside an array of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.errors import BadRequest
from golem_host.http.body import read_json
from golem_host.http.fields import Fields
from golem_host.http.keep_alive import parse_keep_alive
from golem_host_embed.routes.computing import computed, written
from golem_host_embed.routes.inputs import read_inputs, tokens_of
from golem_host_embed.routes.vectors import EUCLIDEAN, RAW, as_numbers, normalized

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host_embed.runtime import EmbedRuntime

MAX_NORM = 1024
"""The highest p of a p-norm; beyond, it is the largest component to every digit."""


async def embedding(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Vectors of one text or several, in their order."""
    return await native_answer(request, host, Fields(await read_json(request)))


async def native_answer(request: Request[Any, Any, Any], host: Host, fields: Fields) -> Response[bytes]:
    """The answer to a body read into `fields`; `input` goes before its synonym `content`."""
    field = "input" if fields.has("input") else "content"
    if not fields.has(field):
        raise BadRequest('"input" or "content" must be provided', param="input")
    inputs = read_inputs(fields.value(field), field)
    base64_wanted(fields)  # only the OpenAI shape knows text
    norm = norm_wanted(fields)
    keep_alive = parse_keep_alive(fields.value("keep_alive"))
    model = host.registry.resolve(fields.string("model"), "embed")
    async with host.registry.use(model, keep_alive) as used:
        runtime = cast("EmbedRuntime", used)
        rows, _ = await computed(request, runtime, lambda: tokens_of(inputs, runtime.tokens, field, runtime.context))
    vectors = normalized(rows, EUCLIDEAN if norm is None else norm)
    items = (b'{"index":%d,"embedding":[%b]}' % (index, as_numbers(vector)) for index, vector in enumerate(vectors))
    return await written(vectors, lambda: b"[" + b",".join(items) + b"]")


def base64_wanted(fields: Fields) -> bool:
    """Whether `encoding_format` asks for base64. Raises `BadRequest` for anything but base64 and float."""
    value = fields.string("encoding_format", "float")
    if value not in ("float", "base64"):
        raise BadRequest(
            f"The format to return the embeddings in. Can be either float or base64, not {value[:40]!r}",
            param="encoding_format",
        )
    return value == "base64"


def norm_wanted(fields: Fields) -> int | None:
    """llama-server's `embd_normalize`: -1 none, 0 largest component, 1 taxicab, 2 Euclidean, p a p-norm."""
    return fields.integer("embd_normalize", minimum=RAW, maximum=MAX_NORM)
