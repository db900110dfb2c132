"""The routes against a real tiny model in process: answers, previews, progress, refusals, files that go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from golem_host.api import StepwiseLane
from golem_host.host import Host
from golem_host.testing.tiny_krea2 import tiny_krea2_directory
from golem_host_krea2 import runtime as krea2_runtime
from golem_host_krea2.picture import MAX_TOKENS
from krea2_checks import PATH, SMALL, opened, pixels_of, serve


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_krea2_directory(tmp_path_factory.mktemp("comfy"))


async def asked(client: httpx.AsyncClient, **changes: Any) -> tuple[int, Any]:
    answer = await client.post(PATH, json={**SMALL, **changes})
    return answer.status_code, answer.json()


async def until(client: httpx.AsyncClient, id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """A picture's progress once it is so."""
    for _ in range(20_000):
        progress = (await client.get(f"/v1/images/progress/{id}")).json()
        if holds(progress):
            return progress
        assert progress.get("status") not in ("done", "failed"), progress
        await asyncio.sleep(0.001)
    raise AssertionError(f"{id} never came so far")


def test_a_picture_says_what_it_was_drawn_from(tmp_path: Path, root: Path) -> None:
    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        reply = await client.post(PATH, json={**SMALL, "size": "256x272", "progress_id": "mine"})
        answer = reply.json()
        assert reply.headers["x-progress-id"] == "mine"
        assert (answer["seed"], answer["data"][0]["seed"], answer["output_format"]) == (5, 5, "png")
        assert answer["usage"]["total_tokens"] == answer["usage"]["input_tokens"] + 16 * 17
        picture: Any = opened(answer["data"][0]["b64_json"])
        assert (picture.size, picture.mode, picture.format) == ((256, 272), "RGB", "PNG")
        texts = picture.text
        assert texts["prompt"] == "a red fox" and texts["negative_prompt"] == ""
        assert [texts[name] for name in ("seed", "steps", "cfg", "size")] == ["5", "1", "1", "256x272"]
        digests = {name: text for name, text in texts.items() if name.startswith("sha256 ")}
        assert len(digests) == 3 and all(len(digest) == 64 for digest in digests.values())
        progress = (await client.get("/v1/images/progress/mine")).json()
        assert progress == {"id": "mine", "status": "done", "step": 1, "steps": 1, "fraction": 1.0}
        status, body = await asked(client, seed=-1)
        assert status == 200 and 0 <= body["seed"] < 2**32
        status, again = await asked(client, seed=body["seed"])
        assert again["data"] == body["data"]

    serve(tmp_path, scenario, root)


def test_previews(tmp_path: Path, root: Path) -> None:
    """Streamed equals not streamed, and the last preview is near the picture."""

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        body = {**SMALL, "steps": 4, "stream": True, "partial_images": 2}
        reply = await client.post(PATH, json=body)
        assert reply.headers["content-type"] == "text/event-stream"
        blocks = [block.split("\n") for block in reply.text.strip().split("\n\n")]
        events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
        assert [f"event: {event['type']}" for event in events] == [name for name, _ in blocks]
        assert [event["type"].rpartition(".")[2] for event in events] == ["partial_image"] * 2 + ["completed"]
        assert [event["partial_image_index"] for event in events[:2]] == [0, 1]
        pictures = [np.asarray(opened(event["b64_json"])).astype(float) for event in events]
        assert {picture.shape for picture in pictures} == {(256, 256, 3)}
        _, whole = await asked(client, steps=4)
        assert events[2]["b64_json"] == whole["data"][0]["b64_json"] and events[2]["seed"] == 5

        def apart(picture: Any) -> float:
            return float(np.corrcoef(picture.ravel(), pictures[2].ravel())[0, 1])

        assert apart(pictures[1]) > 0.3  # of the random decoder's output, what a linear map of its input explains

    serve(tmp_path, scenario, root)


REFUSALS: list[tuple[dict[str, Any], str | None, str | None]] = [
    ({"prompt": None}, "prompt", "required"),
    ({"prompt": "  "}, "prompt", "must say something"),
    ({"prompt": 5}, "prompt", "expected a string"),
    ({"n": 2}, "n", "one picture at a time"),
    ({"response_format": "url"}, "response_format", "b64_json"),
    ({"size": "1000x1024"}, "size", "multiple of 16 from 256 to 2048"),
    ({"size": "240x256"}, "size", "from 256"),
    ({"size": "256x2064"}, "size", "to 2048"),
    ({"size": "256"}, "size", "WIDTHxHEIGHT"),
    ({"size": "-256x256"}, "size", "WIDTHxHEIGHT"),
    ({"step": 4}, "step", "did you mean 'steps'?"),
    ({"steps": 0}, "steps", "from 1 to 100"),
    ({"steps": 1000}, "steps", "from 1 to 100"),
    ({"steps": 1.5}, "steps", "an integer"),
    ({"cfg": -0.5}, "cfg", "from 0.0"),
    ({"cfg": "3"}, "cfg", "a number"),
    ({"negative_prompt": "blurry"}, "negative_prompt", "nothing reads it at cfg 1"),
    ({"seed": 2**64}, "seed", "from -1"),
    ({"seed": -2}, "seed", "from -1"),
    ({"seed": 1.5}, "seed", "an integer"),
    ({"partial_images": 1}, "partial_images", "'stream': true"),
    ({"stream": True, "partial_images": 4}, "partial_images", "from 0 to 3"),
    ({"progress_id": "a/b"}, "progress_id", "letters"),
    ({"style": "vivid"}, "style", "not served"),
    ({"quality": "high"}, "quality", "not served"),
    ({"background": "transparent"}, "background", "not served"),
    ({"output_format": "webp"}, "output_format", "not served"),
    ({"model": "other"}, None, None),
]


@pytest.mark.parametrize(("changes", "param", "reason"), REFUSALS)
def test_refusals(refusing: Any, changes: dict[str, Any], param: str | None, reason: str | None) -> None:
    status, error = refusing(changes)
    if reason is None:  # a single model is meant whatever is named
        assert status == 200
        return
    assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert reason in error["message"]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Any:
    """Asks all at once, at the first question; then answers from what came."""
    known: dict[str, tuple[int, Any]] = {}

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        for changes, _, _ in REFUSALS:
            status, body = await asked(client, **changes)
            known[repr(changes)] = status, body.get("error")
        assert (await asked(client))[0] == 200  # the lane still answers

    serve(tmp_path_factory.mktemp("refusing"), scenario, root)
    return lambda changes: known[repr(changes)]


def test_numbers_that_json_cannot_write(tmp_path: Path, root: Path) -> None:
    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        for number in ("NaN", "Infinity", "1e999"):
            answer = await client.post(PATH, content=f'{{"prompt": "x", "cfg": {number}}}')
            assert answer.status_code == 400

    serve(tmp_path, scenario, root)


def test_a_prompt_of_too_many_tokens(tmp_path: Path, root: Path) -> None:
    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        status, body = await asked(client, prompt="word " * 100_000)
        assert status == 400
        assert body["error"]["n_prompt_tokens"] > 100_000 and body["error"]["n_ctx"] == MAX_TOKENS
        assert (await asked(client))[0] == 200

    serve(tmp_path, scenario, root)


def test_pictures_that_do_not_fit_the_memory(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        caplog.set_level("INFO", "golem_host.krea2")
        _, whole = await asked(client, size="512x512")
        assert "512x512, 1 steps: at most" in caplog.text and "in tiles" not in caplog.text
        needed: list[int] = []
        monkeypatch.setattr(
            krea2_runtime, "peak_bytes", lambda backend, asked: needed.append(0) or (2 if asked.tiled else 3)
        )
        monkeypatch.setattr(krea2_runtime, "available_bytes", lambda: 2)
        _, tiled = await asked(client, size="512x512")
        assert "decoded in tiles" in caplog.text and len(needed) == 2
        # attention and padding see a tile alone; a tiny decoder's pixels differ little
        apart = np.abs(pixels_of(whole).astype(int) - pixels_of(tiled))
        assert apart.max() > 0 and np.median(apart) < 24
        monkeypatch.setattr(krea2_runtime, "available_bytes", lambda: 1)
        status, body = await asked(client)
        assert (
            status == 400 and body["error"]["param"] == "size" and "ask for a smaller one" in body["error"]["message"]
        )

    serve(tmp_path, scenario, root)


def test_one_picture_at_a_time_and_cancel(tmp_path: Path, root: Path) -> None:
    """A client that leaves frees the lane within a slice, and the next picture draws."""

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        _, expected = await asked(client)
        [resident] = host.registry.residents()
        assert resident.runtime is not None
        lane = resident.runtime.lane
        assert isinstance(lane, StepwiseLane)
        leaving = asyncio.create_task(asked(client, steps=100, progress_id="long"))
        await until(client, "long", lambda progress: progress.get("step", 0) >= 1)
        waiting = asyncio.create_task(asked(client, progress_id="waiting"))
        progress = await until(client, "waiting", lambda progress: "status" in progress)
        assert progress["status"] == "queued" and lane.state()["running"] == 1
        assert (await asked(client, progress_id="long"))[0] == 400  # the id of another picture
        [job] = lane.in_flight()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        passes = lane.passes
        job.cancel()
        for _ in range(20_000):
            if lane.in_flight() != [job]:
                break
            await asyncio.sleep(0.001)
        assert lane.passes <= passes + 1
        status, answer = await waiting
        assert status == 200 and answer["data"] == expected["data"]
        assert (await client.get("/v1/images/progress/long")).json()["status"] == "failed"
        assert (await client.get("/v1/images/progress/never")).status_code == 404

    serve(tmp_path, scenario, root)


@pytest.mark.parametrize("role", ["diffusion_models", "text_encoders", "vae"])
def test_a_file_that_vanishes(tmp_path: Path, role: str) -> None:
    """The picture that needs it fails alone; back in its place, the next one draws."""
    root = tiny_krea2_directory(tmp_path / "comfy")
    [file] = (root / "models" / role).iterdir()

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        _, expected = await asked(client)
        drawing = asyncio.create_task(asked(client, steps=30, progress_id="it"))
        if role != "text_encoders":
            await until(client, "it", lambda progress: progress.get("step", 0) >= 1)
            file.rename(tmp_path / "away")
            status, body = await drawing
            assert status == 500 and file.name in body["error"]["message"]
        else:
            file.rename(tmp_path / "away")
            await drawing
        status, body = await asked(client)
        assert status == 500 and file.name in body["error"]["message"]
        assert str(tmp_path) not in body["error"]["message"]
        (tmp_path / "away").rename(file)
        status, answer = await asked(client)
        assert status == 200 and answer["data"] == expected["data"]

    serve(tmp_path, scenario, root)


def test_kept_weights_give_the_same_bytes(tmp_path: Path, root: Path) -> None:
    async def scenario(host: Host, client: httpx.AsyncClient) -> list[Any]:
        found = [(await asked(client, steps=2))[1]["data"] for _ in range(2)]
        runtime: Any = host.registry.residents()[0].runtime
        assert (runtime._files.kept is not None) == bool(host.settings["krea2-keep"])
        return found

    read = serve(tmp_path, scenario, root)
    kept = serve(tmp_path, scenario, root, ("krea2-keep", "true"))
    assert read[0] == read[1] == kept[0] == kept[1]


def test_the_list_of_models(tmp_path: Path, root: Path) -> None:
    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        [model] = (await client.get("/v1/models")).json()["data"]
        assert model["id"] == "tiny"
        shown = (await client.post("/api/show", json={"model": "tiny"})).json()
        assert shown["model_info"]["krea2.block_count"] == 2 and shown["capabilities"] == ["image"]

    serve(tmp_path, scenario, root)
