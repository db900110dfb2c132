"""Models served on a Vulkan device, and a device that fails while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host import plugins
from golem_host.devices.vulkan.errors import OutOfDeviceMemory
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.physical import PhysicalDevice
from golem_host.host import Host
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf

LOST, FULL = -4, -2


@pytest.fixture
def with_host(physical: PhysicalDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run something beside a host that serves a tiny chat model on the device."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = tiny_gguf(tmp_path / "tiny.gguf", "llama")
    enabled = plugins.load(["chat"])
    flags = {"chat_model": f"m={model}", "device": "vulkan", "context": "64", "parallel": "1"}
    settings = settings_of(tmp_path, flags, enabled.settings())

    def run(use: Callable[[Host, httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
        async def go() -> None:
            async with running(settings, enabled) as (host, client):
                await use(host, client)

        asyncio.run(go())

    return run


async def complete(client: httpx.AsyncClient) -> httpx.Response:
    asked = {"prompt": "abc", "max_tokens": 4, "temperature": 0}
    return await client.post("/v1/completions", json=asked, timeout=60)


def test_a_model_whose_first_layers_stay_on_the_cpu_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", layers=3)
    enabled = plugins.load(["chat"])

    async def text(**flags: str) -> str:
        given = {"chat_model": f"m={model}", "context": "64", "parallel": "1", **flags}
        async with running(settings_of(tmp_path, given, enabled.settings()), enabled) as (_, client):
            answer = await complete(client)
            assert answer.status_code == 200
            return answer.json()["choices"][0]["text"]

    split = asyncio.run(text(device="vulkan", vulkan_layers="1"))
    assert split == asyncio.run(text(device="vulkan", vulkan_layers="3")) == asyncio.run(text(device="cpu"))


def test_a_model_says_where_it_is_served(with_host) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        assert [model.device for model in host.registry.models()] == ["vulkan:0"]
        assert list(host.devices) == ["vulkan:0"]
        assert (await complete(client)).status_code == 200

    with_host(use)


@pytest.mark.parametrize(("code", "name"), [(LOST, "VK_ERROR_DEVICE_LOST"), (FULL, "VK_ERROR_OUT_OF_DEVICE_MEMORY")])
def test_after_a_failed_submission_the_model_is_loaded_again(
    with_host, monkeypatch: pytest.MonkeyPatch, code: int, name: str
) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        before = await complete(client)
        loaded = host.registry.residents()[0].runtime
        with monkeypatch.context() as patch:
            patch.setattr(Gpu, "_queue_submit", lambda self, info: code)
            failed = await complete(client)
        assert failed.status_code == 503
        assert name in failed.json()["error"]["message"]
        after = await complete(client)
        assert after.json()["choices"] == before.json()["choices"]
        assert host.registry.residents()[0].runtime is not loaded
        assert (await client.get("/health")).json() == {"status": "ok"}

    with_host(use)


def test_memory_that_runs_out_between_passes_is_a_failure_of_the_device(
    with_host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Gpu, heap: int, size: int) -> object:
        raise OutOfDeviceMemory(FULL, "vkAllocateMemory", "the card has 3 MiB of memory left, 4 MiB more are needed")

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Gpu, "claim", full)
            failed = await complete(client)
        assert failed.status_code == 503
        assert "3 MiB of memory left, 4 MiB more are needed" in failed.json()["error"]["message"]
        assert (await complete(client)).status_code == 200
        assert (await client.get("/health")).json() == {"status": "ok"}

    with_host(use)


def test_a_device_that_fails_while_a_model_is_loaded_is_told(with_host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is submitted first are the zeros of the caches."""

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        before = await complete(client)
        await host.registry.unload(host.registry.models()[0])
        assert not host.registry.residents()
        with monkeypatch.context() as patch:
            patch.setattr(Gpu, "_queue_submit", lambda self, info: LOST)
            failed = await complete(client)
        assert failed.status_code == 503
        assert "VK_ERROR_DEVICE_LOST" in failed.json()["error"]["message"]
        assert (await complete(client)).json()["choices"] == before.json()["choices"]

    with_host(use)
