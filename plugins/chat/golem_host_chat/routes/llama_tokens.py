"""llama-server's `POST /tokenize` and `/detokenize`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response

from golem_host.http.body import read_json
from golem_host.http.fields import Fields, kind_of
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.http.off_loop import off_loop
from golem_host.http.writing import json_bytes
from golem_host_chat.routes.context_limit import tokenizable
from golem_host_chat.routes.token_ids import checked_ids

if TYPE_CHECKING:
    from golem_host.host import Host
    from golem_host.text.tokenizer import Tokenizer
    from golem_host_chat.runtime import ChatRuntime


async def tokenize(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """Token ids of `content`: a string, or an array of strings and ids in their order."""
    fields = Fields(await read_json(request))
    content = _content(fields)
    add_special = fields.boolean("add_special", False)
    parse_special = fields.boolean("parse_special", True)
    with_pieces = fields.boolean("with_pieces", False)

    def work(tokenizer: Tokenizer) -> bytes:
        tokens: list[int] = []
        for place, part in enumerate(content):
            if isinstance(part, str):
                tokens += tokenizer.encode(part, add_special=add_special and not place, parse_special=parse_special)
            else:
                tokens += checked_ids(tokenizer, [part], "content")
        if not with_pieces:
            return json_bytes({"tokens": tokens})
        # Each is written once: objects of all of them would take a hundred times the text's memory.
        written = {token: json_bytes(_with_piece(tokenizer, token)) for token in set(tokens)}
        return b'{"tokens":[' + b",".join([written[token] for token in tokens]) + b"]}"

    return await _answered(request, host, fields, work)


async def detokenize(request: Request[Any, Any, Any], host: Host) -> Response[bytes]:
    """The text of `tokens`; control tokens are spelled out."""
    fields = Fields(await read_json(request))
    tokens = fields.array("tokens") or []

    def work(tokenizer: Tokenizer) -> bytes:
        text = tokenizer.decode(checked_ids(tokenizer, tokens, "tokens"), special=True)
        return json_bytes({"content": text.decode("utf-8", "replace")})

    return await _answered(request, host, fields, work)


async def _answered(
    request: Request[Any, Any, Any], host: Host, fields: Fields, work: Callable[[Tokenizer], bytes]
) -> Response[bytes]:
    """The JSON that `work` writes, which takes about as long as making it."""
    keep_alive = parse_keep_alive(fields.value("keep_alive"))
    model = host.registry.resolve(fields.string("model"), "chat")
    async with host.registry.use(model, keep_alive) as used:
        tokenizer = cast("ChatRuntime", used).tokenizer
        return Response(await off_loop(request, lambda: work(tokenizer)), media_type="application/json")


def _content(fields: Fields) -> list[str | int]:
    """The texts and ids of `content`, none when it is absent. Ids are not checked."""
    content = fields.value("content")
    if content is None:
        return []
    parts: list[str | int] = [content] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise fields.fault("content", f"expected a string or an array of strings and token ids, got {kind_of(content)}")
    for place, part in enumerate(parts):
        if not isinstance(part, str | int) or isinstance(part, bool):
            raise fields.fault("content", f"expected a string or a token id at place {place}, got {kind_of(part)}")
    tokenizable("".join(part for part in parts if isinstance(part, str)), "content")
    return parts


def _with_piece(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    """A token with its text, or with its bytes when they are no whole text."""
    piece = tokenizer.piece(token, special=True)
    try:
        return {"id": token, "piece": piece.decode()}
    except UnicodeDecodeError:
        return {"id": token, "piece": list(piece)}
