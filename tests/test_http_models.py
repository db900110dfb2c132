"""The model lists of both APIs, for every kind of model, as their clients read them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from golem_host.host import Host
from golem_host.http.models import model_info, tagged
from golem_host.http.timestamps import rfc3339
from golem_host.testing.fakes import FakeModel, FakePlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of

NANOSECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"


@pytest.fixture
def models(tmp_path: Path) -> list[FakeModel]:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    chat = FakeModel("SmolLM2", path=file, aliases=("SmolLM2.gguf",))
    chat.shown = {
        "template": "{{ messages }}",
        "parameters": "temperature                    0.7\ntop_k                          40",
        "license": "Apache-2.0",
        "model_info": {
            "general.architecture": "fake",
            "general.name": "Smol",
            "fake.block_count": 30,
            "fake.odd": float("inf"),
            "tokenizer.chat_template": "{{ messages }}",
            "tokenizer.ggml.tokens": ["x"] * 2000,
            "tokenizer.ggml.few": [1, 2],
        },
    }
    embed = FakeModel("org/Mini:v2", path=file, kind="embed")
    embed.capabilities = ("embedding",)
    return [chat, embed]


def with_host(
    folder: Path,
    models: list[FakeModel],
    use: Callable[[Host, httpx.AsyncClient], Coroutine[Any, Any, None]],
    **flags: str,
) -> None:
    async def go() -> None:
        plugins = plugin_set(fake=FakePlugin(models))
        async with running(settings_of(folder / "home", flags), plugins) as (host, client):
            await use(host, client)

    asyncio.run(go())


def test_openais_list_and_single_models(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        listed = (await client.get("/v1/models?limit=1&after=x")).json()
        assert listed["object"] == "list" and [entry["id"] for entry in listed["data"]] == ["SmolLM2", "org/Mini:v2"]
        first = listed["data"][0]
        assert first["object"] == "model" and first["created"] == 1_700_000_000 and first["owned_by"] == "golem-host"
        assert first["aliases"] == ["SmolLM2.gguf"]
        assert first["meta"] == {"n_ctx_train": 2048, "n_embd": 64, "n_params": 134_515_008, "size": 1000}
        assert (await client.get("/models")).json() == listed
        for written in ("SmolLM2", "smollm2", "SmolLM2:latest", "SmolLM2.gguf"):
            assert (await client.get(f"/v1/models/{written}")).json() == first
        for written in ("org/Mini:v2", "org%2FMini:v2", "org%2FMini%3Av2"):
            assert (await client.get(f"/v1/models/{written}")).json()["id"] == "org/Mini:v2"
        missing = await client.get("/v1/models/other")
        assert missing.status_code == 404 and missing.json()["error"]["code"] == "model_not_found"

    with_host(tmp_path, models, use)


def test_tags(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        chat, embed = (await client.get("/api/tags")).json()["models"]
        assert chat["name"] == chat["model"] == "SmolLM2:latest" and embed["name"] == "org/Mini:v2"
        assert chat["digest"] == hashlib.sha256(b"weights").hexdigest() and chat["size"] == 1000
        assert chat["modified_at"] == "2023-11-14T22:13:20.250000000Z"
        assert chat["details"] == {
            "parent_model": "", "format": "gguf", "family": "fake", "families": ["fake"], "parameter_size": "134.5M",
            "quantization_level": "Q4_0", "context_length": 2048, "embedding_length": 64,
        }  # fmt: skip
        assert chat["capabilities"] == ["completion"] and embed["capabilities"] == ["embedding"]

    with_host(tmp_path, models, use)


def test_tags_when_the_file_went_away(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        models[0].path.unlink()
        answer = await client.get("/api/tags")
        assert answer.status_code == 200 and [entry["digest"] for entry in answer.json()["models"]] == ["", ""]

    with_host(tmp_path, models, use)


def test_ps_follows_residency(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        chat, embed = models
        await host.registry.load(chat, 60.0)
        await host.registry.load(embed, None)
        first, second = (await client.get("/api/ps")).json()["models"]
        assert (first["name"], second["name"]) == ("org/Mini:v2", "SmolLM2:latest")
        assert re.fullmatch(NANOSECONDS, first["expires_at"]) and int(first["expires_at"][:4]) > 2300
        left = datetime.fromisoformat(second["expires_at"]) - datetime.now(UTC)
        assert 0 < left.total_seconds() <= 60
        assert second["size"] == 1000 and second["size_vram"] == 0 and second["context_length"] == 2048
        assert second["details"]["family"] == "fake" and len(second["digest"]) == 64
        await host.registry.unload(chat)
        await host.registry.unload(embed)
        assert (await client.get("/api/ps")).json() == {"models": []}

    with_host(tmp_path, models, use)


def test_ps_shows_a_model_in_use_as_staying(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await host.registry.load(models[0], 0.001)
        async with host.registry.use(models[0]):
            entries = {entry["name"]: entry for entry in (await client.get("/api/ps")).json()["models"]}
        left = datetime.fromisoformat(entries["SmolLM2:latest"]["expires_at"]) - datetime.now(UTC)
        assert 3000 < left.total_seconds() <= 3600

    with_host(tmp_path, models, use, keep_alive="1h")


def test_show(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        shown = (await client.post("/api/show", json={"model": "smollm2"})).json()
        assert shown["template"] == "{{ messages }}" and shown["license"] == "Apache-2.0"
        assert shown["parameters"].splitlines()[1].split() == ["top_k", "40"]
        assert "FROM SmolLM2\n" in shown["modelfile"] and "\nPARAMETER top_k " in shown["modelfile"]
        assert re.fullmatch(NANOSECONDS, shown["modified_at"]) and shown["capabilities"] == ["completion"]
        assert shown["details"]["context_length"] == 2048
        assert shown["model_info"] == {
            "general.architecture": "fake", "general.parameter_count": 134_515_008, "fake.context_length": 2048,
            "fake.embedding_length": 64, "fake.block_count": 30, "fake.odd": None, "tokenizer.ggml.tokens": [],
            "tokenizer.ggml.few": [1, 2],
        }  # fmt: skip
        verbose = (await client.post("/api/show", json={"name": "SmolLM2:latest", "verbose": True})).json()
        assert len(verbose["model_info"]["tokenizer.ggml.tokens"]) == 2000

    with_host(tmp_path, models, use)


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({}, 400, "model is required"),
        ({"model": ""}, 400, "model is required"),
        ({"model": None, "name": None}, 400, "model is required"),
        ({"model": "x"}, 404, "model 'x' not found"),
        ({"model": 5}, 400, "Field 'model': expected a string, got a number"),
        ({"model": "SmolLM2", "verbose": "yes"}, 400, "Field 'verbose': expected a boolean, got a string"),
    ],
)
def test_show_refuses_in_ollamas_envelope(
    tmp_path: Path, models: list[FakeModel], body: Any, status: int, error: str
) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        answer = await client.post("/api/show", json=body)
        assert (answer.status_code, answer.json()) == (status, {"error": error})

    with_host(tmp_path, models, use)


def test_ollamas_own_client_reads_all_of_it(tmp_path: Path, models: list[FakeModel]) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        tags = ollama.ListResponse(**(await client.get("/api/tags")).json())
        assert tags.models[0].model == "SmolLM2:latest" and tags.models[0].modified_at is not None
        ps = ollama.ProcessResponse(**(await client.get("/api/ps")).json())
        assert {entry.name for entry in ps.models} == {"SmolLM2:latest", "org/Mini:v2"}
        shown = ollama.ShowResponse(**(await client.post("/api/show", json={"model": "SmolLM2"})).json())
        assert shown.modelinfo and shown.modelinfo["fake.context_length"] == 2048

    with_host(tmp_path, models, use, keep_alive="-1")


def test_names_with_and_without_a_tag() -> None:
    names = {"a": "a:latest", "a:b": "a:b", "x.y/a": "x.y/a:latest", "host:80/a": "host:80/a:latest"}
    assert {name: tagged(name) for name in names} == names


def test_what_every_model_tells_is_there_without_metadata() -> None:
    info = model_info(FakeModel("m", path=Path("x")), {}, verbose=False)
    assert info["fake.context_length"] == 2048 and info["general.architecture"] == "fake"


def test_timestamps() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000000000Z"
    assert rfc3339(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
