"""llama-server's `/slots`: what they do, and conversations that outlive the host in files."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.host import Host
from golem_host.testing.fakes import FakePlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf
from golem_host_chat import plugin
from golem_host_chat.model import ChatModel
from golem_host_chat.routes import ROUTES

PROMPT = [3 + (7 * i * i + i) % 200 for i in range(150)]
"""Longer than the windows of the tiny models."""
LONG = 1900
"""Tokens of an answer that is still drawn while others are asked about it."""
SAVED, OTHER = list(range(100, 130)), list(range(200, 240))


@dataclass
class Served:
    host: Host
    client: httpx.AsyncClient
    model: ChatModel

    async def draw(self, prompt: list[int], count: int = 12, **more: Any) -> dict[str, Any]:
        body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, **more}
        reply = await self.client.post("/v1/completions", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def act(self, slot: int | str, action: str, **body: Any) -> httpx.Response:
        return await self.client.post(f"/slots/{slot}?action={action}", json=body)

    async def done(self, slot: int, action: str, **body: Any) -> dict[str, Any]:
        reply = await self.act(slot, action, **body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def slots(self) -> list[dict[str, Any]]:
        return (await self.client.get("/slots")).json()


@asynccontextmanager
async def serving(folder: Path, file: Path, *, device: str = "cpu", **flags: str) -> AsyncIterator[Served]:
    """A host, in this event loop, of the model in `file`, whose slots may be saved in `folder`."""
    given = {"context": "2048", "parallel": "2", "slot-save-path": str(folder), **flags}
    model = ChatModel(file, name="m", device=device)
    settings = settings_of(folder, given, plugin.golem_settings())
    async with running(settings, plugin_set(chat=FakePlugin([model], ROUTES))) as (host, client):
        yield Served(host, client, model)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf", "qwen3", context=2048)


def error_of(reply: httpx.Response) -> str:
    error = reply.json()["error"]
    assert error["code"] == reply.status_code
    return error["message"]


def text_of(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["text"]


@pytest.mark.parametrize(
    ("architecture", "flags"),
    [
        ("qwen3", {}),
        ("qwen3", {"kv_type": "q8_0"}),
        ("gemma3", {}),  # sliding windows, in rings that the prompt has gone round
    ],
    ids=["full", "q8_0", "windows"],
)
def test_a_restored_slot_answers_as_before_the_restart(
    tmp_path: Path, architecture: str, flags: dict[str, str]
) -> None:
    options: dict[str, Any] = {"layers": 2, "head_width": 32} if architecture == "qwen3" else {}
    file = tiny_gguf(tmp_path / "tiny.gguf", architecture, context=2048, **options)
    prompt = PROMPT * 5

    async def scenario() -> None:
        async with serving(tmp_path, file, **flags) as before:
            answer = await before.draw(prompt)
            longer = [*prompt, *OTHER]
            again, fresh = await before.draw(prompt, cache_prompt=False), await before.draw(longer, cache_prompt=False)
            assert text_of(again) == text_of(answer)
            await before.done(0, "erase")
            await before.done(1, "erase")
            await before.draw(prompt)
            slot = next(each["id"] for each in await before.slots() if each.get("n_prompt_tokens"))
            saved = await before.done(slot, "save", filename="conversation")
            # The last token drawn has not been read.
            assert saved["n_saved"] == len(prompt) + 11 and saved["timings"]["save_ms"] > 0
            assert saved["n_written"] == (tmp_path / "conversation").stat().st_size
        async with serving(tmp_path, file, **flags) as after:
            restored = await after.done(1, "restore", filename="conversation")
            assert restored["n_restored"] == saved["n_saved"] and restored["n_read"] == saved["n_written"]
            assert restored["id_slot"] == 1 and restored["filename"] == "conversation"
            here = await after.draw(longer)
            assert text_of(here) == text_of(fresh) and here["timings"]["cache_n"] == len(prompt)
            await after.done(1, "restore", filename="conversation")
            same = await after.draw(prompt)
            assert text_of(same) == text_of(answer) and same["timings"]["cache_n"] == len(prompt) - 1

    asyncio.run(scenario())


def test_recurrent_states_go_on_where_they_ended_and_from_their_checkpoints(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", "qwen35", context=2048)
    parted, longer = [*PROMPT[:100], *OTHER], [*PROMPT, *OTHER]

    async def scenario() -> None:
        async with serving(tmp_path, file) as before:
            await before.draw(PROMPT, 0)
            await before.draw(parted, 0)
            assert (await before.done(0, "save", filename="end"))["n_saved"] == len(PROMPT)
            assert (await before.done(1, "save", filename="parted"))["n_saved"] == len(parted)
        for filename, prompt, kept in (("end", longer, len(PROMPT)), ("parted", PROMPT, 100)):
            async with serving(tmp_path, file) as after:
                await after.done(0, "restore", filename=filename)
                here, fresh = await after.draw(prompt), await after.draw(prompt, cache_prompt=False)
                assert here["timings"]["cache_n"] == kept
                assert text_of(here) == text_of(fresh)

    asyncio.run(scenario())


def test_an_empty_slot_and_one_that_is_erased(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, tiny) as served:
            assert (await served.done(1, "save", filename="empty"))["n_saved"] == 0
            await served.draw(PROMPT)
            assert await served.done(0, "erase") == {"id_slot": 0, "n_erased": len(PROMPT) + 11}
            assert await served.done(0, "erase") == {"id_slot": 0, "n_erased": 0}
            assert (await served.draw(PROMPT))["timings"]["cache_n"] == 0
            assert (await served.done(0, "restore", filename="empty"))["n_restored"] == 0
            assert (await served.slots())[0]["n_prompt_tokens"] == 0
            assert (await served.draw(PROMPT))["timings"]["cache_n"] == 0

    asyncio.run(scenario())


def changed(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def resealed(raw: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A changed file whose sha256 fits again."""
    content = change(raw[:-32])
    return content + hashlib.sha256(content).digest()


def lengthened(content: bytes, old: bytes, new: bytes) -> bytes:
    """Another header of another length."""
    at = len(b"golem-host slot 1\n")
    length = int.from_bytes(content[at : at + 8], "little")
    header = content[at + 8 : at + 8 + length]
    assert header.count(old) == 1, header
    header = header.replace(old, new)
    return content[:at] + len(header).to_bytes(8, "little") + header + content[at + 8 + length :]


def test_damaged_and_foreign_files_are_refused_and_leave_the_slot_empty(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, tiny) as served:
            await served.draw(SAVED)
            await served.done(0, "save", filename="good")
            raw = (tmp_path / "good").read_bytes()
            header_end = 26 + int.from_bytes(raw[18:26], "little")
            bad = {
                "empty": b"",
                "short": raw[:-1],
                "long": raw + b"\0",
                "half": raw[: len(raw) // 2],
                "other": b"GGUF" + raw,
                "version": raw.replace(b"slot 1", b"slot 2"),
                "length": raw[:18] + b"\xff" * 8 + raw[26:],
                "json": resealed(raw, lambda content: content[:26] + b"[" + content[27:]),
                "negative": resealed(raw, lambda content: lengthened(content, b'"tokens": 41', b'"tokens": -1')),
                "huge": resealed(raw, lambda content: lengthened(content, b'"tokens": 41', b'"tokens": 1000')),
                "beyond": resealed(raw, lambda content: lengthened(content, b'"tokens": 41', b'"tokens": 2000')),
                "words": resealed(raw, lambda content: lengthened(content, b'"tokens": 41', b'"tokens": "a"')),
                "written": resealed(raw, lambda content: lengthened(content, b'"high_water": 40', b'"high_water": 7')),
                "copies": resealed(raw, lambda content: lengthened(content, b"[]}", b"[900]}")),
                "vocabulary": resealed(
                    raw, lambda content: content[:header_end] + b"\xff" * 4 + content[header_end + 4 :]
                ),
                **{f"bit{at}": changed(raw, at) for at in (0, 19, 40, header_end, header_end + 200, len(raw) - 1)},
            }
            for name, content in bad.items():
                (tmp_path / name).write_bytes(content)
                await served.done(0, "restore", filename="good")
                reply = await served.act(0, "restore", filename=name)
                assert reply.status_code == 400, name
                assert error_of(reply).startswith("Unable to restore slot: "), name
                assert (await served.slots())[0]["n_prompt_tokens"] == 0, name
            (tmp_path / "folder").mkdir()
            assert "No such file" in error_of(await served.act(0, "restore", filename="absent"))
            assert "no file" in error_of(await served.act(0, "restore", filename="folder"))
            await served.done(0, "restore", filename="good")
            assert (await served.draw([*SAVED, 5]))["timings"]["cache_n"] == len(SAVED)

    asyncio.run(scenario())


def test_a_file_fits_only_the_model_and_the_slots_it_was_saved_from(tmp_path: Path, tiny: Path) -> None:
    async def restored(file: Path, **flags: str) -> str:
        async with serving(tmp_path, file, **flags) as served:
            return error_of(await served.act(0, "restore", filename="good"))

    async def scenario() -> None:
        async with serving(tmp_path, tiny) as served:
            await served.draw(SAVED)
            await served.done(0, "save", filename="good")
        other = tiny_gguf(tmp_path / "other.gguf", "qwen3", context=2048, seed=1)
        assert "another model" in await restored(other)
        assert "another context" in await restored(tiny, context="1024")
        wide = tiny_gguf(tmp_path / "wide.gguf", "qwen3", context=2048, width=64, head_width=32)
        async with serving(tmp_path, wide) as served:
            await served.done(0, "save", filename="good")
        assert "another shape of caches" in await restored(wide, kv_type="q8_0")

    asyncio.run(scenario())


def test_a_model_file_that_changed_is_neither_saved_nor_restored(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", context=2048)

    async def scenario() -> None:
        async with serving(tmp_path, file) as served:
            await served.draw(SAVED)
            await served.done(0, "save", filename="good")
            os.utime(file, (1, 1))
            for action in ("save", "restore"):
                reply = await served.act(0, action, filename="good")
                assert reply.status_code == 503 and "has changed since it was loaded" in error_of(reply)

    asyncio.run(scenario())


def test_a_busy_slot_is_acted_on_when_it_is_free_and_others_go_on(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, tiny, context="4096") as served:
            busy = asyncio.create_task(served.draw(SAVED, LONG))
            while not any(each["is_processing"] for each in await served.slots()):
                await asyncio.sleep(0.001)
            waiting = asyncio.create_task(served.done(0, "save", filename="a"))
            left = asyncio.create_task(served.done(0, "erase"))
            assert (await served.draw(OTHER))["usage"]["completion_tokens"] == 12
            assert not waiting.done() and not left.done()
            left.cancel()
            length = len(SAVED) + (await busy)["usage"]["completion_tokens"]
            assert (await waiting)["n_saved"] == length - 1
            assert (await served.slots())[0]["n_prompt_tokens"] == length - 1, "whoever left erases nothing"

    asyncio.run(scenario())


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        async with serving(tmp_path, tiny) as served:
            await served.draw(SAVED)
            await served.done(0, "save", filename="a")
            before = {each: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
            await served.draw([*SAVED, *OTHER])
            monkeypatch.setattr(os, "fsync", full)
            reply = await served.act(0, "save", filename="a")
            assert reply.status_code == 500 and error_of(reply) == "Unable to save slot: No space left on device"
            assert reply.headers["x-should-retry"] == "false"
            assert {each: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before
            monkeypatch.undo()
            assert (await served.done(0, "save", filename="a"))["n_saved"] > len(SAVED)

    asyncio.run(scenario())


def test_refusals(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, tiny) as served:
            for slot in ("2", "-1", "x", "0x1", "٣", "99999999999999999999", "1.0"):
                assert "Invalid slot ID" in error_of(await served.act(slot, "erase")), slot
            for action in ("", "load", "SAVE"):
                assert "Invalid action" in error_of(await served.act(0, action))
            assert "Invalid action" in error_of(await served.client.post("/slots/0", json={}))
            for action in ("save", "restore"):
                assert "'filename' is required" in error_of(await served.act(0, action))
                for name in ("", "../a", "a/b", ".", "a\x00"):
                    assert error_of(await served.act(0, action, filename=name)) == "Invalid filename"
                reply = await served.act(0, action, filename=5)
                assert reply.status_code == 400 and "filename" in error_of(reply)
            assert (await served.client.post("/slots/0?action=erase")).status_code == 200

    asyncio.run(scenario())


def test_the_body_or_the_query_names_the_model(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        models = [ChatModel(tiny, name=name) for name in ("m", "q")]
        settings = settings_of(tmp_path, {"slot-save-path": str(tmp_path)}, plugin.golem_settings())
        async with running(settings, plugin_set(chat=FakePlugin(models, ROUTES))) as (_, client):
            for action in ("save", "restore", "erase"):
                act = f"/slots/0?action={action}"
                body = {"filename": f"{action[0]}.bin"}
                assert "model is required" in error_of(await client.post(act, json=body))
                assert (await client.post(act, json={**body, "model": "nobody"})).status_code == 404
                for url, named in ((act, {**body, "model": "q"}), (f"{act}&model=q", body)):
                    saved = await client.post(url.replace("restore", "save"), json=named)
                    assert saved.status_code == 200, saved.text
                    assert (await client.post(url, json=named)).status_code == 200

    asyncio.run(scenario())


def test_without_a_folder_nothing_is_saved(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        model = ChatModel(tiny, name="m")
        settings = settings_of(tmp_path, {}, plugin.golem_settings())
        async with running(settings, plugin_set(chat=FakePlugin([model], ROUTES))) as (_, client):
            reply = await client.post("/slots/0?action=save", json={"filename": "a"})
            assert reply.status_code == 501 and reply.headers["x-should-retry"] == "false"
            assert "--slot-save-path" in error_of(reply) and reply.json()["error"]["type"] == "not_supported_error"

    asyncio.run(scenario())


def test_what_may_not_be_told(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        settings = settings_of(tmp_path, {"slots": "false", "metrics": "false"}, plugin.golem_settings())
        model = ChatModel(tiny, name="m")
        async with running(settings, plugin_set(chat=FakePlugin([model], ROUTES))) as (_, client):
            for path, flag in (("/slots", "--no-slots"), ("/metrics", "--no-metrics")):
                reply = await client.get(path)
                assert reply.status_code == 501 and reply.headers["x-should-retry"] == "false"
                assert flag in error_of(reply)
            props = (await client.get("/props")).json()
            assert (props["endpoint_slots"], props["endpoint_metrics"]) == (False, False)

    asyncio.run(scenario())


def test_what_slots_do(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, tiny, context="4096") as served:
            idle = [{"id": i, "n_ctx": 2048, "speculative": False, "is_processing": False} for i in range(2)]
            assert await served.slots() == idle
            busy = [asyncio.create_task(served.draw(prompt, LONG, top_k=5)) for prompt in (SAVED, OTHER)]
            while not all(each["is_processing"] for each in await served.slots()):
                await asyncio.sleep(0.001)
            first = (await served.slots())[0]
            assert first["params"]["top_k"] == 5 and first["params"]["n_predict"] == LONG
            assert (
                first["n_prompt_tokens_processed"] in (len(SAVED), len(OTHER)) and first["n_prompt_tokens_cache"] == 0
            )
            [token] = first["next_token"]
            assert token["has_next_token"] and token["n_decoded"] + token["n_remain"] == LONG
            none = await served.client.get("/slots?fail_on_no_slot=1")
            assert none.status_code == 503 and error_of(none) == "no slot available"
            assert len({each["id_task"] for each in await served.slots()}) == 2
            await asyncio.gather(*busy)
            done = (await served.slots())[0]
            assert not done["is_processing"] and not done["next_token"][0]["has_next_token"]
            assert done["next_token"][0]["n_decoded"] == LONG and done["next_token"][0]["n_remain"] == 0
            assert (await served.client.get("/slots?fail_on_no_slot=1")).status_code == 200
            await served.host.registry.unload(served.model)
            assert await served.slots() == idle and served.host.registry.loaded(served.model) is None

    asyncio.run(scenario())


def test_a_derived_model_shares_slots_and_tells_its_own_properties(tmp_path: Path, tiny: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, tiny) as served:
            layer = {"model": "mine", "from": "m", "parameters": {"temperature": 0.25, "num_ctx": 256}}
            created = await served.client.post("/api/create", json={**layer, "stream": False})
            assert created.status_code == 200, created.text
            await served.draw(SAVED)
            assert (await served.client.get("/slots?model=mine")).json() == await served.slots()
            saved = await served.client.post("/slots/0?action=save&model=mine", json={"filename": "a"})
            assert saved.json()["n_saved"] == len(SAVED) + 11
            assert (await served.done(0, "restore", filename="a"))["n_restored"] == len(SAVED) + 11
            for _ in range(2):
                told = (await served.client.get("/props?model=mine")).json()["default_generation_settings"]
                assert told["params"]["temperature"] == 0.25 and told["n_ctx"] == 256
                await served.host.registry.unload(served.model)

    asyncio.run(scenario())
