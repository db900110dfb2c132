"""Models that requests add: names, manifests, copies, deletion, blobs; for models of any kind."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host import hookspecs
from golem_host.config import Settings, named_path
from golem_host.errors import BadRequest
from golem_host.host import Host
from golem_host.layer import LAYER_BYTES
from golem_host.manifests import Manifest, ManifestStore, checked_name
from golem_host.plugins import PluginSet
from golem_host.registry import Model
from golem_host.setting import Setting
from golem_host.testing.fakes import FakeModel, plugin_set
from golem_host.testing.inprocess import running, settings_of

Use = Callable[[Host, httpx.AsyncClient], Awaitable[None]]


class FilesPlugin:
    """Serves any `.gguf` file that begins with `good` as a `FakeModel`."""

    GOLEM_HOST_API = hookspecs.API

    @hookspecs.hookimpl
    def golem_settings(self) -> Sequence[Setting]:
        return [Setting("fake-model", named_path, (), "Files.", repeatable=True)]

    @hookspecs.hookimpl
    def golem_models(self, settings: Settings) -> Sequence[Model]:
        return [FakeModel(given.name or given.path.stem, path=given.path) for given in settings["fake-model"]]

    @hookspecs.hookimpl
    def golem_identify(self, path: Path) -> hookspecs.Identified | None:
        if path.suffix != ".gguf":
            return None
        problems = () if path.read_bytes().startswith(b"good") else ("it is not good",)
        return hookspecs.Identified("fake", "fake", problems=problems, setting="fake-model")


def plugins() -> PluginSet:
    return plugin_set(fake=FilesPlugin())


def with_host(folder: Path, use: Use) -> None:
    """A host with one model, `base`, and what earlier hosts of that folder have kept."""

    async def go() -> None:
        path = folder / "base.gguf"
        path.write_bytes(b"good weights")
        found = plugins()
        settings = settings_of(folder / "home", {"fake-model": [f"base={path}"]}, found.settings())
        async with running(settings, found) as (host, client):
            await use(host, client)

    asyncio.run(go())


def names(host: Host) -> list[str]:
    return [model.name for model in host.registry.models()]


async def send_blob(client: httpx.AsyncClient, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (await client.post(f"/api/blobs/{digest}", content=content)).status_code in (200, 201)
    return digest


async def lines(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    answer = await client.post("/api/create", json=body)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def deleted(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await client.request("DELETE", "/api/delete", json=body)


def test_a_copy_is_served_listed_and_there_after_a_restart(tmp_path: Path) -> None:
    digests = []

    async def copying(host: Host, client: httpx.AsyncClient) -> None:
        answer = await client.post("/api/copy", json={"source": "BASE:latest", "destination": "Me/Twin:v2"})
        assert (answer.status_code, answer.content) == (200, b"")
        assert (
            await client.post("/api/copy", json={"source": "me/twin:V2", "destination": "third"})
        ).status_code == 200
        assert names(host) == ["base", "Me/Twin:v2", "third"]
        base, *copies = (await client.get("/api/tags")).json()["models"]
        assert [copy["name"] for copy in copies] == ["Me/Twin:v2", "third:latest"]
        # A digest is one of content: a copy's copy has the same, and not the base's.
        assert copies[0]["digest"] == copies[1]["digest"] != base["digest"]
        assert copies[0]["details"] == {**base["details"], "parent_model": "base"}
        assert (await client.get("/v1/models/Me%2FTwin:v2")).json()["id"] == "Me/Twin:v2"
        digests.append(copies[0]["digest"])

    async def again(host: Host, client: httpx.AsyncClient) -> None:
        assert names(host) == ["base", "Me/Twin:v2", "third"]
        assert (await client.get("/api/tags")).json()["models"][1]["digest"] == digests[0]
        assert (await client.get("/health")).status_code == 200

    with_host(tmp_path, copying)
    with_host(tmp_path, again)


def test_a_copy_shares_its_base_in_memory(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await client.post("/api/copy", json={"source": "base", "destination": "twin"})
        twin, base = host.registry.find("twin"), host.registry.find("base")
        assert twin is not None and base is not None
        async with host.registry.use(twin) as runtime, host.registry.use(base) as other:
            assert runtime is other
        assert [entry["name"] for entry in (await client.get("/api/ps")).json()["models"]] == ["base:latest"]
        await host.registry.unload(twin)
        assert (await client.get("/api/ps")).json() == {"models": []}
        async with host.registry.use(twin):  # named after whose request loaded it
            assert [entry["name"] for entry in (await client.get("/api/ps")).json()["models"]] == ["twin:latest"]

    with_host(tmp_path, use)


def test_requests_without_a_name_still_mean_the_model_of_the_settings(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await client.post("/api/copy", json={"source": "base", "destination": "twin"})
        await lines(client, model="own", files={"m.gguf": await send_blob(client, b"good one")})
        assert host.registry.resolve(None, "chat").name == host.registry.resolve("whatever", "chat").name == "base"
        assert host.registry.resolve("twin", "chat").name == "twin"
        assert host.registry.resolve("own", "chat").name == "own"

    with_host(tmp_path, use)


def test_refusals_name_what_is_wrong(tmp_path: Path) -> None:
    requests: list[tuple[str, str, dict[str, Any], int, str]] = [
        ("POST", "copy", {"source": "other", "destination": "x"}, 404, 'model "other" not found'),
        ("POST", "copy", {"destination": "x"}, 400, 'source "" is invalid'),
        ("POST", "copy", {"source": "base", "destination": "../x"}, 400, 'destination "../x" is invalid'),
        ("POST", "copy", {"source": "twin", "destination": "BASE.gguf"}, 400, "no .gguf at its end"),
        ("POST", "copy", {"source": "twin", "destination": "Base"}, 400, "named by this host's settings"),
        ("DELETE", "delete", {"model": "other"}, 404, "model 'other' not found"),
        ("DELETE", "delete", {}, 400, "model is required"),
        ("DELETE", "delete", {"name": "base"}, 400, "named by this host's settings and cannot be deleted"),
        ("POST", "create", {"model": "x"}, 400, "neither 'from' or 'files' was specified"),
        ("POST", "create", {"from": "base"}, 400, "model is required"),
        ("POST", "create", {"model": "a b", "from": "base"}, 400, "invalid model name 'a b'"),
        ("POST", "create", {"model": "x", "from": "other"}, 404, 'model "other" not found, try pulling it first'),
        ("POST", "create", {"model": "x", "from": "base", "files": {"a": "b"}}, 400, "invalid digest 'b'"),
        ("POST", "create", {"model": "x", "from": "base", "quantize": "q4_K_M"}, 400, "'quantize' is not served"),
        ("POST", "create", {"model": "x", "from": "base", "adapters": {"a": "b"}}, 400, "'adapters' is not served"),
        ("POST", "create", {"model": "x", "from": "base", "system": 3}, 400, "Field 'system': expected a string"),
        ("POST", "create", {"model": "x", "from": "base", "license": [3]}, 400, "Field 'license'"),
        ("POST", "create", {"model": "x", "from": "base", "system": "hi"}, 400, "'system' means nothing to model"),
        ("POST", "create", {"model": "x", "from": "base", "license": "x" * LAYER_BYTES}, 400, "hold more than"),
        ("POST", "create", {"model": "x", "files": {"m.gguf": "sha256:" + "0" * 64}}, 400, "no blob sha256-000"),
        ("POST", "create", {"model": "x", "files": {"../m.gguf": "sha256:" + "0" * 64}}, 400, "is no name of a file"),
        ("POST", "create", {"model": "x", "files": {"m.gguf": 3}}, 400, "expected the digest of 'm.gguf'"),
        ("POST", "push", {"model": "base"}, 400, "this host publishes nothing"),
        ("POST", "pull", {"model": "llama3.2"}, 400, "not from Ollama's library"),
        ("POST", "pull", {"model": "hf.co/a/b", "insecure": True}, 400, "'insecure' is not served"),
        ("POST", "pull", {"model": "hf.co/a"}, 400, "expected hf.co/OWNER/REPO"),
    ]  # fmt: skip

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await client.post("/api/copy", json={"source": "base", "destination": "twin"})
        for method, path, body, status, words in requests:
            for stream in ({}, {"stream": False}):
                answer = await client.request(method, f"/api/{path}", json={**body, **stream})
                assert (answer.status_code, words in answer.json()["error"]) == (status, True), (body, answer.text)
        assert names(host) == ["base", "twin"]

    with_host(tmp_path, use)


def test_a_model_of_files_that_were_sent(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        digest = await send_blob(client, b"good weights of mine")
        assert (await client.head(f"/api/blobs/{digest}")).status_code == 200
        said = await lines(client, model="mine", files={"mine.gguf": digest})
        assert said[-1] == {"status": "success"}
        assert (await client.post("/api/create", json={"model": "also", "from": "mine", "stream": False})).json() == {
            "status": "success"
        }
        assert names(host) == ["base", "mine", "also"]
        refused = await deleted(client, model="mine")
        assert refused.status_code == 400 and "also" in refused.json()["error"]

    async def again(host: Host, client: httpx.AsyncClient) -> None:
        assert names(host) == ["base", "mine", "also"]
        mine = host.registry.find("mine")
        assert mine is not None and mine.path.read_bytes() == b"good weights of mine"
        async with host.registry.use(mine):  # a model may go while it is in use
            assert (await deleted(client, model="also")).status_code == 200
            assert (await deleted(client, name="mine:latest")).status_code == 200
            assert names(host) == ["base"] and not mine.path.exists()
        assert (await deleted(client, model="mine")).status_code == 404

    async def gone(host: Host, client: httpx.AsyncClient) -> None:
        assert names(host) == ["base"]

    for step in (use, again, gone):
        with_host(tmp_path, step)


def test_files_that_no_plugin_serves_are_refused_with_the_reason(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        bad, text = await send_blob(client, b"bad weights"), await send_blob(client, b"a text")
        answer = await client.post("/api/create", json={"model": "x", "files": {"m.gguf": bad}})
        assert (answer.status_code, answer.json()) == (400, {"error": "it is not good"})
        answer = await client.post("/api/create", json={"model": "x", "files": {"m.txt": text}})
        assert answer.status_code == 400 and "no plugin that is enabled (fake) serves" in answer.json()["error"]
        assert names(host) == ["base"]

    with_host(tmp_path, use)


def test_a_name_is_taken_over_with_all_that_was_its_own(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await lines(client, model="m", files={"one.gguf": await send_blob(client, b"good one")})
        one = host.registry.find("m")
        assert one is not None
        await lines(client, model="M", files={"two.gguf": await send_blob(client, b"good two")})
        two = host.registry.find("m")
        assert two is not None and two.path.name == "two.gguf" and not one.path.exists()
        await lines(client, model="m", **{"from": "base", "license": "MIT"})
        assert names(host) == ["base", "m"] and not two.path.exists()
        shown = (await client.post("/api/show", json={"model": "m"})).json()
        assert shown["license"] == "MIT" and shown["modelfile"].startswith("FROM base\n")

    with_host(tmp_path, use)


def test_blobs_are_checked(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        digest = "sha256:" + hashlib.sha256(b"right").hexdigest()
        assert (await client.head(f"/api/blobs/{digest}")).status_code == 404
        wrong = await client.post(f"/api/blobs/{digest}", content=b"wrong")
        assert wrong.status_code == 400 and wrong.json()["error"].startswith(f"digest mismatch, expected {digest}")

        async def pieces():
            yield b"ri"
            yield b"ght"

        assert (await client.post(f"/api/blobs/{digest}", content=pieces())).status_code == 201
        assert (await client.post(f"/api/blobs/{digest}", content=b"right")).status_code == 200
        for name in ("sha256:zz", "md5:" + "0" * 32, "sha256:" + "0" * 63, "..%2f..%2fx"):
            assert (await client.post(f"/api/blobs/{name}", content=b"")).status_code in (400, 404)
        assert [file.name for file in (host.catalogue.folder / "blobs").iterdir()] == [digest.replace(":", "-")]

    with_host(tmp_path, use)


def test_manifests_that_cannot_be_served_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "home" / "manifests"
    folder.mkdir(parents=True)
    good: Mapping[str, Any] = {"format": 1, "name": "x", "created": 1.0, "base": "base", "layer": {}}
    own = {"format": 1, "created": 1.0, "setting": "fake-model", "path": "x"}
    contents = {
        "not JSON": b"{",
        "no manifest of format 1": json.dumps({**good, "format": 2}).encode(),
        "invalid model name": json.dumps({**good, "name": "../x"}).encode(),
        "made from 'gone', which is not served": json.dumps({**good, "base": "gone", "name": "y"}).encode(),
        "means nothing": json.dumps({**good, "layer": {"system": "hi"}, "name": "z"}).encode(),
        "outside the model folder": json.dumps({**own, "name": "f", "path": "/etc/x"}).encode(),
        "has the setting addr": json.dumps({**own, "name": "g", "setting": "addr"}).encode(),
        "a setting names another model so": json.dumps({**own, "name": "Base"}).encode(),
        "too large": b" " * (2 * LAYER_BYTES + 1),
    }  # fmt: skip
    for index, content in enumerate(contents.values()):
        (folder / f"{index}.json").write_bytes(content)
    (folder / "good.json").write_text(json.dumps({**good, "name": "good"}))

    async def use(host: Host, client: httpx.AsyncClient) -> None:
        assert names(host) == ["base", "good"]

    with_host(tmp_path, use)
    for words in contents:
        if words != "not JSON":
            assert re.search(re.escape(words), caplog.text), words


def test_an_added_model_that_cannot_be_loaded_leaves_the_host_healthy(tmp_path: Path) -> None:
    async def use(host: Host, client: httpx.AsyncClient) -> None:
        await lines(client, model="m", files={"m.gguf": await send_blob(client, b"good")})
        model = host.registry.find("m")
        assert isinstance(model, FakeModel)
        model.failure = RuntimeError("no")
        with pytest.raises(RuntimeError, match="no"):
            await host.registry.load(model)
        assert (await client.get("/health")).status_code == 200

    with_host(tmp_path, use)


def test_a_manifest_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ManifestStore(tmp_path)
    store.write(Manifest("a/b:c", 1.0, base="x"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(json, "dump", full)
    with pytest.raises(OSError, match="disk full"):
        store.write(Manifest("a/b:c", 2.0, base="x"))
    assert [(manifest.name, manifest.created) for manifest in store.all()] == [("a/b:c", 1.0)]
    assert [file.name for file in tmp_path.iterdir()] == ["a%2Fb%3Ac.json"]


@pytest.mark.parametrize("name", ["a", "A.b-c_1", "me/x", "hf.co/o/r:Q4_K_M", "x:v2"])
def test_good_names(name: str) -> None:
    assert checked_name(name) == checked_name(f"{name}:latest" if ":" not in name else name) == name


@pytest.mark.parametrize(
    "name",
    ["", ":latest", "/x", "x/", "a//b", "..", "a/../b", "x:y:z", "é", "x.gguf", "x" * 129, "a/b/c/d", "x\n"],
)
def test_bad_names(name: str) -> None:
    with pytest.raises(BadRequest, match="invalid model name"):
        checked_name(name)
