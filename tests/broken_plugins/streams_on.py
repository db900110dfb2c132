"""Answers streams without looking whether anybody reads them."""

import json
from typing import Any

from broken_plugins.spelling import SpellingRuntime, hooks


class Unwatched:
    """An ASGI application that sends what a job emits."""

    def __init__(self, host: Any, model: Any, job: Any) -> None:
        self._host, self._model, self._job = host, model, job

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with self._host.registry.use(self._model):
            async for letter in self._job.events():
                line = json.dumps({"letter": letter}).encode() + b"\n"
                await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def unwatched(request: Any, host: Any) -> Any:
    from litestar import Response

    from broken_plugins.routes import spell
    from golem_host.api import Fields, read_json

    class Streaming(Response[bytes]):
        def to_asgi_response(self, *args: Any, **kwargs: Any) -> Any:
            return Unwatched(host, model, job)

    body = await read_json(request)
    if body.get("stream") is not True or set(body) != {"text", "stream"}:
        return await spell(request, host)
    model = host.registry.resolve(Fields(body).string("model"), "spell")
    async with host.registry.use(model) as runtime:
        assert isinstance(runtime, SpellingRuntime)
        job = runtime.submit(body["text"])
    return Streaming(b"")


globals().update(hooks("streams_on", handler="broken_plugins.streams_on:unwatched"))
