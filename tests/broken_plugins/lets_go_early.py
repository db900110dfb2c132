"""Streams from a model that it no longer counts as in use."""

from collections.abc import AsyncIterator
from typing import Any, cast

from broken_plugins.spelling import SpellingRuntime, hooks


async def careless(request: Any, host: Any) -> Any:
    from broken_plugins.routes import spell
    from golem_host.api import Fields, read_json, stream_reply

    fields = Fields(await read_json(request))
    if "stream" not in fields.obj or len(fields.obj) > 2:
        return await spell(request, host)
    model = host.registry.resolve(None, "spell")
    async with host.registry.use(model) as runtime:
        job = cast(SpellingRuntime, runtime).submit(fields.string("text") or "")

    async def letters() -> AsyncIterator[dict[str, Any]]:
        async for letter in job.events():
            yield {"letter": letter}

    return await stream_reply(request, job, letters(), framing="ndjson", dialect="openai", done=None)


globals().update(hooks("lets_go_early", handler="broken_plugins.lets_go_early:careless"))
