"""Health asks the lanes: ok, loading, failed, stopping."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.errors import ModelFileError, OperatorError
from golem_host.host import Host
from golem_host.http import health
from golem_host.lanes.job import Job
from golem_host.testing.fakes import FakeModel, FakePlugin, Script, plugin_set
from golem_host.testing.inprocess import client_of, running, settings_of


def model(name: str = "m") -> FakeModel:
    return FakeModel(name, path=Path(__file__))


def with_host(
    folder: Path, models: list[FakeModel], use: Callable[[Host, httpx.AsyncClient], Coroutine[Any, Any, None]]
) -> None:
    async def go() -> None:
        async with running(settings_of(folder), plugin_set(fake=FakePlugin(models))) as (host, client):
            await use(host, client)

    asyncio.run(go())


@pytest.mark.parametrize("path", ["/health", "/v1/health"])
def test_ok(tmp_path: Path, path: str) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        answer = await client.get(path)
        assert answer.status_code == 200 and answer.json() == {"status": "ok"}
        assert (await client.head(path)).status_code == 200

    with_host(tmp_path, [model("a"), model("b")], use)


def test_ok_with_an_unloaded_model_and_while_a_model_is_busy(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        first, second = host.registry.models()
        await host.registry.unload(first)
        async with host.registry.use(second) as runtime:
            runtime.lane.submit(Job(Script()))
            assert (await client.get("/health")).json() == {"status": "ok"}

    with_host(tmp_path, [model("a"), model("b")], use)


def test_a_lane_that_failed_is_named_with_its_reason(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        async with host.registry.use(host.registry.models()[1]) as runtime:
            runtime.lane.failed = RuntimeError("the card is gone")
        answer = await client.get("/health")
        assert answer.status_code == 503
        assert answer.json() == {"status": "failed", "model": "b", "reason": "the lane failed: the card is gone"}

    with_host(tmp_path, [model("a"), model("b")], use)


def test_a_device_that_does_not_answer_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ALIVE_SECONDS", 0.05)
    stuck = threading.Event()

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        host.devices["cpu"].submit(stuck.wait)
        try:
            answers = await asyncio.gather(*(client.get("/health") for _ in range(3)))
        finally:
            stuck.set()
        for answer in answers:
            assert answer.status_code == 503 and answer.json()["reason"] == "the device did not answer within 0.05 s"
        assert (await client.get("/health")).status_code == 200

    with_host(tmp_path, [model()], use)


def test_loading(tmp_path: Path) -> None:
    gate = threading.Event()
    slow = model()
    slow.gate = gate.wait  # type: ignore[assignment]

    async def go() -> None:
        host = Host(settings_of(tmp_path), plugin_set(fake=FakePlugin([slow])))
        async with client_of(host) as client:
            starting = asyncio.create_task(host.start())
            while not host.registry.all_residents()[0].loading:
                await asyncio.sleep(0.001)
            answer = await client.get("/health")
            assert answer.status_code == 503
            assert answer.json() == {"status": "loading", "model": "m", "reason": "the model is being loaded"}
            gate.set()
            await starting
            assert (await client.get("/health")).status_code == 200
        await host.stop(drain=False)

    asyncio.run(go())


def test_a_load_that_failed_stays_red_until_one_succeeds(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        broken = host.registry.models()[0]
        assert isinstance(broken, FakeModel)
        await host.registry.unload(broken)
        broken.failure = ModelFileError("m.gguf", "the file is cut short")
        with pytest.raises(Exception, match="cut short"):
            await host.registry.load(broken)
        answer = await client.get("/health")
        assert answer.status_code == 503 and answer.json()["status"] == "failed"
        assert "the file is cut short" in answer.json()["reason"]
        broken.failure = None
        await host.registry.load(broken)
        assert (await client.get("/health")).status_code == 200

    with_host(tmp_path, [model()], use)


def test_a_start_that_fails_ends_with_the_model_named(tmp_path: Path) -> None:
    broken = model("sad")
    broken.failure = ModelFileError("sad.gguf", "the file is cut short")

    async def go() -> None:
        host = Host(settings_of(tmp_path), plugin_set(fake=FakePlugin([broken])))
        with pytest.raises(OperatorError, match="'sad' cannot be loaded"):
            await host.start()
        async with client_of(host) as client:
            answer = await client.get("/health")
            assert answer.status_code == 503 and answer.json()["status"] == "failed" and answer.json()["model"] == "sad"
        await host.stop(drain=False)

    asyncio.run(go())


def test_stopping(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        host.stopping = True
        answer = await client.get("/health")
        assert answer.status_code == 503 and answer.json()["status"] == "stopping"

    with_host(tmp_path, [model()], use)
