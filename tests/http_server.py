"""A real server for tests: the `serve` of the command line with a fake plugin. Run as a script; flags are settings.

Routes of the plugin, all POST: `/v1/whole` waits for the job of the body's script, `/v1/stream` and `/api/stream`
stream its events, `/v1/echo` gives the body back. `GET /v1/jobs` lists the jobs and how they ended.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from golem_host.config import CORE, resolve
from golem_host.hookspecs import Route
from golem_host.http.body import read_json
from golem_host.http.disconnect import result_or_disconnect
from golem_host.http.fields import Fields
from golem_host.http.streams import SSE_DONE, stream_reply
from golem_host.lanes.job import Job
from golem_host.serve import serve
from golem_host.testing.fakes import FakeModel, FakePlugin, FakeRuntime, Script, plugin_set

JOBS: list[Job[Script]] = []


async def submitted(request: Any, runtime: FakeRuntime) -> Job[Script]:
    fields = Fields(await read_json(request))
    job = Job(Script(events=fields.integer("events"), silent=fields.boolean("silent", False)))
    JOBS.append(job)
    runtime.lane.submit(job)
    return job


async def whole(request: Any, host: Any) -> dict[str, Any]:
    async with host.registry.use(host.registry.resolve(None, "chat")) as runtime:
        job = await submitted(request, runtime)
        return {"result": (await result_or_disconnect(request, [job]))[0]}


async def stream(request: Any, host: Any) -> Any:
    model = host.registry.resolve(None, "chat")

    async def chunks(job: Job[Script]) -> AsyncIterator[dict[str, Any]]:
        async with host.registry.use(model):
            async for event in job.events():
                yield {"event": event}

    async with host.registry.use(model) as runtime:
        job = await submitted(request, runtime)
        if request.url.path.startswith("/api/"):
            return await stream_reply(request, job, chunks(job), framing="ndjson", dialect="ollama", done=None)
        return await stream_reply(request, job, chunks(job), framing="sse", dialect="openai", done=SSE_DONE)


async def echo(request: Any, host: Any) -> dict[str, Any]:
    return await read_json(request)


async def jobs(request: Any, host: Any) -> list[dict[str, Any]]:
    return [
        {"started": job.started is not None, "end": job.end.value if job.end else None, "events": job.request.done}
        for job in JOBS
    ]


def main() -> int:
    flags = {name: [value] for name, _, value in (argument.partition("=") for argument in sys.argv[1:])}
    routes = [
        Route("POST", "/v1/whole", whole, "openai", "Waits"),
        Route("POST", "/v1/stream", stream, "openai", "Streams"),
        Route("POST", "/api/stream", stream, "ollama", "Streams lines"),
        Route("POST", "/v1/echo", echo, "openai", "Echoes"),
        Route("GET", "/v1/jobs", jobs, "openai", "Lists jobs"),
    ]
    plugin = FakePlugin([FakeModel("fake", path=Path(__file__), seats=1)], routes)
    return serve(resolve(CORE, flags, {}, None), plugin_set(fake=plugin))


if __name__ == "__main__":
    sys.exit(main())
