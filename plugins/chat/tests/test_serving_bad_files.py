"""A model whose file goes bad under a running host: its requests are told why, and everything else goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from golem_host import plugins
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.raw_gguf import gguf_bytes
from golem_host.testing.tiny import tiny_gguf

UNLOADED = {"model": "bad", "keep_alive": 0}


async def ask(client: httpx.AsyncClient, model: str) -> httpx.Response:
    body = {"model": model, "prompt": "Hello", "max_tokens": 4, "temperature": 0}
    return await client.post("/v1/completions", json=body, timeout=60)


@pytest.mark.parametrize("damage", ["cut", "lying", "keys"])
def test_the_host_outlives_its_files(tmp_path: Path, damage: str) -> None:
    good, bad = (tiny_gguf(tmp_path / f"{name}.gguf", "qwen3") for name in ("good", "bad"))
    whole = bad.read_bytes()
    enabled = plugins.load(["chat"])
    flags = {"chat-model": [f"good={good}", f"bad={bad}"], "context": "256"}
    settings = settings_of(tmp_path, flags, enabled.settings())
    damaged, reason = {
        "cut": (whole[: len(whole) // 2], "it is truncated"),
        "lying": (
            tiny_gguf(tmp_path / "lying.gguf", "qwen3", metadata={"qwen3.block_count": 3}).read_bytes(),
            "blk.2.",
        ),
        "keys": (gguf_bytes({f"key.{number}": number for number in range(100_000)}), "'general.architecture'"),
    }[damage]

    def replace(data: bytes) -> None:
        new = tmp_path / "new"
        new.write_bytes(data)
        new.replace(bad)  # as docs/architecture.md asks: a file is never changed in place

    async def run() -> None:
        async with running(settings, enabled) as (_, client):
            first = await ask(client, "bad")
            assert first.status_code == 200
            assert (await client.post("/api/generate", json=UNLOADED)).status_code == 200
            replace(damaged)
            refused, beside = await asyncio.gather(ask(client, "bad"), ask(client, "good"))
            assert refused.status_code >= 500 and reason in refused.text, refused.text
            assert beside.status_code == 200
            assert (await client.get("/v1/models")).status_code == 200
            health = await client.get("/health")
            assert (health.status_code, health.json()["model"]) == (503, "bad")
            assert reason in health.json()["reason"]
            replace(whole)
            again = await ask(client, "bad")
            assert again.json()["choices"] == first.json()["choices"]
            assert (await client.get("/health")).status_code == 200

    asyncio.run(run())
