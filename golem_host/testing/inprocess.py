"""A host and a client in one event loop: the whole application without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from golem_host.app import build_app
from golem_host.config import CORE, Setting, Settings, resolve
from golem_host.host import Host
from golem_host.plugins import PluginSet


def settings_of(
    folder: Path, flags: Mapping[str, str | Sequence[str]] | None = None, specs: Sequence[Setting] = ()
) -> Settings:
    """The core's settings and `specs`, with flags as texts and nothing from the environment.

    Underscores may stand for hyphens in the names of `flags`. The model folder is `folder`.
    """
    given = (flags or {}).items()
    texts = {name.replace("_", "-"): [value] if isinstance(value, str) else value for name, value in given}
    return resolve([*CORE, *specs], {"model-folder": [str(folder)], **texts}, {}, None)


@asynccontextmanager
async def running(settings: Settings, plugins: PluginSet) -> AsyncIterator[tuple[Host, httpx.AsyncClient]]:
    """A started host, its models loaded, and a client of it; stopped at the end without waiting for answers."""
    host = Host(settings, plugins)
    await host.start()
    try:
        async with client_of(host) as client:
            yield host, client
    finally:
        await host.stop(drain=False)


def client_of(host: Host) -> httpx.AsyncClient:
    """A client of a host that was not started: its routes answer that it is loading."""
    transport = httpx.ASGITransport(app=build_app(host))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")
