"""`/api/pull` against a hub on this machine: progress, resume, what is refused, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fake_hub import FakeHub, fake_hub, sha256
from golem_host.host import Host
from test_added_models import deleted, names, with_host

CONTENT = b"good" + bytes(range(256)) * 16384
NAME = "hf.co/owner/repo:Q8_0"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub(monkeypatch) as hub:
        hub.files = {"m-Q8_0.gguf": CONTENT}
        yield hub


async def pulled(client: httpx.AsyncClient, model: str = NAME) -> list[dict[str, Any]]:
    answer = await client.post("/api/pull", json={"model": model})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.removesuffix("\n").split("\n")]


def test_a_pulled_model_is_served_at_once_and_after_a_restart(fake: FakeHub, tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        lines = await pulled(client)
        digest = sha256(CONTENT)
        progress = [line for line in lines if "digest" in line]
        assert [line["status"] for line in lines if "digest" not in line] == [
            "pulling manifest", "verifying sha256 digest", "writing manifest", "success",
        ]  # fmt: skip
        assert progress[-1] == {
            "status": f"pulling {digest[:12]}", "digest": f"sha256:{digest}",
            "total": len(CONTENT), "completed": len(CONTENT),
        }  # fmt: skip
        assert names(host) == ["base", NAME]
        tags = (await client.get("/api/tags")).json()["models"]
        assert tags[1]["name"] == NAME and tags[1]["digest"] == digest
        model = host.registry.find("hf.co/Owner/Repo:q8_0")
        assert model is not None and host.registry.resolve(NAME, "chat") is model
        await host.registry.load(model)

    async def again(host: Host, client: httpx.AsyncClient) -> None:
        model = host.registry.find(NAME)
        assert model is not None and model.path.read_bytes() == CONTENT
        fake.requests.clear()
        assert (await client.post("/api/pull", json={"name": NAME, "stream": False})).json() == {"status": "success"}
        assert len(fake.requests) == 1 and host.registry.find(NAME) is model  # nothing was fetched
        assert (await deleted(client, model=NAME)).status_code == 200
        assert names(host) == ["base"] and not model.path.exists()

    with_host(tmp_path, use)
    with_host(tmp_path, again)


def test_a_newer_file_takes_the_place_of_the_one_before(fake: FakeHub, tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await pulled(client)
        before = host.registry.find(NAME)
        assert before is not None
        await host.registry.load(before)
        fake.files = {"m-Q8_0.gguf": b"good and new"}
        await pulled(client)
        after = host.registry.find(NAME)
        assert after is not None and after is not before and after.path.read_bytes() == b"good and new"
        assert [entry["name"] for entry in (await client.get("/api/ps")).json()["models"]] == ["base:latest"]

    with_host(tmp_path, use)


def test_a_client_that_leaves_ends_the_pull_and_the_next_goes_on_from_there(fake: FakeHub, tmp_path: Path) -> None:
    fake.break_after, fake.hold = len(CONTENT) // 2, True

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        part = host.catalogue.folder / "owner/repo" / f"m-Q8_0.gguf.{sha256(CONTENT)[:12]}.part"
        pulling = asyncio.create_task(client.post("/api/pull", json={"model": NAME, "stream": False}))
        while not part.exists() or part.stat().st_size < len(CONTENT) // 4:
            await asyncio.sleep(0.01)
        pulling.cancel()
        await asyncio.gather(pulling, return_exceptions=True)
        fake.hold, fake.break_after = False, None
        fake.go_on.set()
        assert names(host) == ["base"]
        assert (await pulled(client))[-1] == {"status": "success"}
        starts = [start for path, start in fake.requests if "resolve" in path]
        assert starts[0] is None and starts[-1] is not None and int(starts[-1][6:-1]) >= len(CONTENT) // 4

    with_host(tmp_path, use)


def test_pulls_of_one_repository_take_turns(fake: FakeHub, tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        both = await asyncio.gather(pulled(client), pulled(client))
        assert [lines[-1] for lines in both] == [{"status": "success"}] * 2
        assert sum("resolve" in path for path, _ in fake.requests) == 1

    with_host(tmp_path, use)


def test_what_the_hub_refuses_has_a_status_of_its_own(fake: FakeHub, tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        async def refused(model: str) -> tuple[int, str]:
            answer = await client.post("/api/pull", json={"model": model})
            return answer.status_code, answer.json()["error"]

        assert await refused("hf.co/owner/absent") == (404, "hf.co/owner/absent: no such repository")
        assert (await refused("hf.co/owner/repo:Q4_0"))[0] == 400
        fake.files = {}
        assert (await refused(NAME))[0] == 400
        fake.token = "secret"
        assert (await refused(NAME))[0] == 403

    with_host(tmp_path, use)


def test_a_failure_after_the_first_line_is_the_last_line(fake: FakeHub, tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        fake.announced = {"m-Q8_0.gguf": sha256(b"another")}
        assert "arrived damaged" in (await pulled(client))[-1]["error"]
        whole = await client.post("/api/pull", json={"model": NAME, "stream": False})
        assert whole.status_code == 400 and "arrived damaged" in whole.json()["error"]
        fake.announced, fake.files = {}, {"m-Q8_0.gguf": b"bad"}
        assert (await pulled(client))[-1] == {"error": "it is not good"}
        assert names(host) == ["base"]
        fake.files = {"m-Q8_0.gguf": CONTENT}
        assert (await pulled(client))[-1] == {"status": "success"}

    with_host(tmp_path, use)
