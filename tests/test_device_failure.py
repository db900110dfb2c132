"""A device that fails while it serves: what callers are told, what health says, and the one automatic reload."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host import host as host_module
from golem_host.errors import DeviceFailed, OperatorError
from golem_host.host import Host
from golem_host.lanes.job import Job
from golem_host.testing.fakes import FakeModel, FakePlugin, FakeRuntime, Script, plugin_set
from golem_host.testing.inprocess import running, settings_of


class Backend:
    """A device that can be lost."""

    def __init__(self) -> None:
        self.lost = False


class DeviceModel(FakeModel):
    """A model that asks for its device when it is loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(name, path=Path(__file__))
        self.runtimes: list[FakeRuntime] = []
        self.backends: list[Backend] = []

    def load(self, device: Any, settings: Any, progress: Any) -> FakeRuntime:
        self.backends.append(device.backend)
        self.runtimes.append(super().load(device, settings, progress))
        return self.runtimes[-1]

    def fail(self, *, lost: bool) -> None:
        """The next pass finds the device lost, or out of memory."""

        def step() -> None:
            self.backends[-1].lost = lost
            raise DeviceFailed("the device is out of order")

        self.runtimes[-1].stepper.step = step  # type: ignore[method-assign]


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[DeviceModel]:
    monkeypatch.setattr(host_module, "backend_maker", lambda name, settings: Backend)
    return [DeviceModel("a"), DeviceModel("b")]


def with_host(
    folder: Path, models: list[DeviceModel], use: Callable[[Host, httpx.AsyncClient], Coroutine[Any, Any, None]]
) -> None:
    async def go() -> None:
        async with running(settings_of(folder), plugin_set(fake=FakePlugin(models))) as (host, client):
            await use(host, client)

    asyncio.run(go())


async def answer(host: Host, model: DeviceModel) -> Any:
    async with host.registry.use(model) as runtime:
        job = Job[Any](Script(events=1))
        runtime.lane.submit(job)
        return await job.result()


async def loaded_again(*models: DeviceModel) -> None:
    while any(len(model.runtimes) < 2 for model in models):
        await asyncio.sleep(0.001)


def test_a_lost_device_fails_its_answers_and_all_its_models_are_loaded_again(
    tmp_path: Path, models: list[DeviceModel]
) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        first, second = models
        async with host.registry.use(second) as runtime:
            waiting = Job[Any](Script(silent=True))
            runtime.lane.submit(waiting)
            first.fail(lost=True)
            with pytest.raises(DeviceFailed, match="the device is out of order"):
                await answer(host, first)
            with pytest.raises(DeviceFailed, match="the device is out of order"):
                await waiting.result()
        # No request asked for them.
        await loaded_again(first, second)
        assert await answer(host, first) == await answer(host, second) == 1
        assert (await client.get("/health")).json() == {"status": "ok"}
        assert first.backends[1] is second.backends[1] is not first.backends[0]
        assert [len(model.runtimes) for model in models] == [2, 2]
        assert all(model.runtimes[0].closed for model in models)

    with_host(tmp_path, models, use)


def test_a_device_out_of_memory_takes_the_model_alone(tmp_path: Path, models: list[DeviceModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        first, second = models
        first.fail(lost=False)
        with pytest.raises(DeviceFailed):
            await answer(host, first)
        await loaded_again(first)
        assert await answer(host, first) == await answer(host, second) == 1
        assert [len(model.runtimes) for model in models] == [2, 1]
        assert first.backends[1] is first.backends[0]

    with_host(tmp_path, models, use)


def test_health_is_red_until_the_model_is_back(tmp_path: Path, models: list[DeviceModel]) -> None:
    gate = threading.Event()

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        first, _ = models
        first.fail(lost=False)
        first.gate = gate.wait  # type: ignore[assignment]
        with pytest.raises(DeviceFailed):
            await answer(host, first)
        next_answer = asyncio.create_task(answer(host, first))
        try:
            reds = [await client.get("/health") for _ in range(20)]
        finally:
            gate.set()
        assert {(red.status_code, red.json()["status"], red.json().get("model")) for red in reds} <= {
            (503, "failed", "a"),
            (503, "loading", "a"),
        }
        assert await next_answer == 1
        assert (await client.get("/health")).status_code == 200
        assert len(first.runtimes) == 2

    with_host(tmp_path, models, use)


def test_a_reload_that_fails_is_not_repeated_until_a_request_comes(
    tmp_path: Path, models: list[DeviceModel], caplog: pytest.LogCaptureFixture
) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        first, second = models
        first.fail(lost=False)
        first.failure = OperatorError("device vulkan:0 cannot be opened")
        tries = 0

        def count() -> None:
            nonlocal tries
            tries += 1

        first.gate = count
        with pytest.raises(DeviceFailed):
            await answer(host, first)
        while "could not be loaded again" not in caplog.text:
            await asyncio.sleep(0.001)
        red = await client.get("/health")
        assert red.json() == {
            "status": "failed",
            "model": "a",
            "reason": "the last load failed: device vulkan:0 cannot be opened",
        }
        assert tries == 1
        assert await answer(host, second) == 1
        first.failure = None
        assert await answer(host, first) == 1
        assert tries == 2
        assert (await client.get("/health")).status_code == 200

    with_host(tmp_path, models, use)


def test_a_host_that_stops_waits_for_a_reload(tmp_path: Path, models: list[DeviceModel]) -> None:
    gate = threading.Event()

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        first, _ = models
        first.fail(lost=False)
        first.gate = gate.wait  # type: ignore[assignment]
        with pytest.raises(DeviceFailed):
            await answer(host, first)
        while not host.registry.all_residents()[0].loading:
            await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_later(0.01, gate.set)

    with_host(tmp_path, models, use)
    assert len(models[0].runtimes) == 2
    assert all(runtime.closed for runtime in models[0].runtimes)
