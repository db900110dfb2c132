"""`POST /v1/spell`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from broken_plugins.spelling import SpellingRuntime
from golem_host.api import Fields, Host, Model, json_response, read_json, result_or_disconnect, stream_reply


async def spell(request: Any, host: Host) -> Any:
    """`{"text": ...}` is answered with the same letters, with `"stream": true` one by one."""
    fields = Fields(await read_json(request))
    fields.refuse_others("model", "text", "stream")
    return await spelt(request, host, fields)


async def spelt(request: Any, host: Host, fields: Fields) -> Any:
    text = fields.string("text")
    if not text:
        raise fields.fault("text", "expected at least one letter")
    model = host.registry.resolve(fields.string("model"), "spell")
    if fields.boolean("stream", False):
        return await streamed(request, host, model, text)
    async with host.registry.use(model) as runtime:
        job = cast(SpellingRuntime, runtime).submit(text)
        [letters] = await result_or_disconnect(request, [job])
    return json_response({"spelt": letters})


async def streamed(request: Any, host: Host, model: Model, text: str) -> Any:
    async with host.registry.use(model) as runtime:
        job = cast(SpellingRuntime, runtime).submit(text)

    async def letters() -> AsyncIterator[dict[str, Any]]:
        async with host.registry.use(model):
            async for letter in job.events():
                yield {"letter": letter}

    return await stream_reply(request, job, letters(), framing="ndjson", dialect="openai", done=None)
