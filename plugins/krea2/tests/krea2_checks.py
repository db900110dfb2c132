"""A host with a tiny Krea 2, and requests of it."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from golem_host.config import CORE, resolve
from golem_host.host import Host
from golem_host.plugins import load
from golem_host.testing.inprocess import running

PATH = "/v1/images/generations"
SMALL = {"prompt": "a red fox", "size": "256x256", "steps": 1, "seed": 5}

Value = TypeVar("Value")
Scenario = Callable[[Host, httpx.AsyncClient], Awaitable[Value]]


def serve(folder: Path, scenario: Scenario[Value], root: Path, *flags: tuple[str, str], enable: str = "krea2") -> Value:
    """Run `scenario` against a host that draws with `root`."""
    plugins = load(enable.split(","))
    texts: dict[str, Any] = {"model-folder": [str(folder)], "krea2-model": [f"tiny={root}"], "threads": ["2"]}
    texts |= {name: [value] for name, value in flags}
    settings = resolve([*CORE, *plugins.settings()], texts, {}, None)

    async def whole() -> Value:
        async with running(settings, plugins) as (host, client):
            client.timeout = httpx.Timeout(120)
            return await scenario(host, client)

    return asyncio.run(whole())


def opened(data: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(data)))


def pixels_of(answer: dict[str, Any]) -> NDArray[np.uint8]:
    return np.asarray(opened(answer["data"][0]["b64_json"]))


def result(work: Generator[None, float | None, Value]) -> Value:
    """What a generator of pieces of work gives at its end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
