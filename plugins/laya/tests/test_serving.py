"""The plugin with its real runtime, in process: company, several checkpoints, bad weights, limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from golem_host.config import CORE, resolve
from golem_host.host import Host
from golem_host.plugins import load
from golem_host.testing.safetensors import safetensors_bytes
from golem_host.testing.tiny_laya import CONFIG, ENCODER, random_tensors, tiny_laya_directory
from golem_host_laya.routes import body as limits
from laya_checks import QUESTIONS, STATE, post, random_request, serve

Body = dict[str, Any]


def systemone(client: httpx.AsyncClient, body: Any) -> Any:
    return post(client, "/v1/systemone", body)


def test_answers_do_not_depend_on_company(tmp_path: Path) -> None:
    """Requests at once are answered by shared passes, with the bits of each alone."""
    tiny_laya_directory(tmp_path / "tiny")
    rng = np.random.default_rng(7)
    bodies = [random_request(rng) for _ in range(12)]

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        alone = [await systemone(client, body) for body in bodies]
        [resident] = host.registry.residents()
        assert resident.runtime is not None
        before = resident.runtime.lane.passes
        together = await asyncio.gather(*(systemone(client, body) for body in bodies))
        assert together == alone
        assert resident.runtime.lane.passes - before < len(bodies)
        states = [body["state"] for body in bodies]
        status, batch = await post(client, "/v1/systemone/batch", {"states": states, "questions": QUESTIONS})
        assert status == 200
        for state, result in zip(states, batch["results"], strict=True):
            assert (await systemone(client, {"state": state, "questions": QUESTIONS}))[1] == result

    serve(tmp_path, scenario, "tiny")


def test_logits_do_not_depend_on_company(tmp_path: Path) -> None:
    """To the bit, not only after rounding, and for questions of one request too."""
    from golem_host.devices.cpu import CpuBackend
    from golem_host_laya.checkpoint import open_checkpoint
    from golem_host_laya.passes import Passes
    from golem_host_laya.questions import Kind
    from golem_host_laya.sequences import Row

    rng = np.random.default_rng(3)
    rows = [Row(rng.integers(5, 261, length).tolist(), [1, 3, 7], 0, 3, None) for length in (9, 130, 8, 77)]
    kinds = [Kind.score, Kind.choice, Kind.noul, Kind.choice]
    with open_checkpoint(tiny_laya_directory(tmp_path / "tiny")) as checkpoint:
        results = []
        for threads in (1, 2):
            passes = Passes(checkpoint, CpuBackend(threads=threads), widths=(32, 256))
            passes.prepare(lambda _: None)
            together = passes.run(rows, kinds)
            alone = [passes.run([row], [kind])[0] for row, kind in zip(rows, kinds, strict=True)]
            results += [[(each.logits.tobytes(), each.act) for each in found] for found in (together, alone)]
            passes.close()
    assert all(found == results[0] for found in results)


def test_requests_of_more_than_a_pass_holds(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "tiny")
    questions = {f"q{at}": {**QUESTIONS["team"], "instructions": f"Which {at}?"} for at in range(64)}
    body = {"state": "word " * 60, "questions": questions}

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        status, whole = await systemone(client, body)
        assert status == 200 and whole["usage"]["input_tokens"] > 3 * 4096
        one = {"state": body["state"], "questions": {"q40": questions["q40"]}}
        assert (await systemone(client, one))[1]["answers"]["q40"] == whole["answers"]["q40"]

    serve(tmp_path, scenario, "tiny")


def test_checkpoints_by_name(tmp_path: Path) -> None:
    for seed, name in enumerate(("laya", "laya-multilingual", "own")):
        tiny_laya_directory(tmp_path / name, seed=seed)

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        async def asked(model: Any) -> tuple[int, Any]:
            return await systemone(client, {"state": STATE, "questions": QUESTIONS, "model": model})

        laya, multilingual, own = [(await asked(name))[1] for name in ("laya", "laya-multilingual", "own")]
        assert len({str(each["answers"]) for each in (laya, multilingual, own)}) == 3
        for name in (None, "", "jev-latest", "english", "en", "default", "convaiinnovations/laya", 5):
            assert await asked(name) == (200, laya), name
        for name in ("ml", "Multi", " multilingual ", "convaiinnovations/laya-multilingual"):
            assert await asked(name) == (200, multilingual), name
        for name in ("typed", "typed-decisions", "./own", "some/repository"):
            status, body = await asked(name)
            assert status == 422
            assert body["detail"].startswith(
                f"unknown model '{name}'; choose one of ['laya', 'laya-multilingual', 'own']"
            )

    serve(tmp_path, scenario, "laya", "laya-multilingual", "own")


def test_a_single_checkpoint_answers_to_every_name(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "tiny")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        for name in ("multilingual", "some/repository", "x"):
            assert (await systemone(client, {"state": 1, "questions": QUESTIONS, "model": name}))[0] == 200
        listed = (await client.get("/v1/models")).json()["data"]
        assert [each["id"] for each in listed] == ["tiny"]

    serve(tmp_path, scenario, "tiny")


def test_weights_that_give_no_numbers_fail_their_request_alone(tmp_path: Path) -> None:
    folder = tiny_laya_directory(tmp_path / "tiny")
    tensors = random_tensors(ENCODER, CONFIG, 1)
    tensors["type_emb.weight"][1, 3] = np.inf  # scores
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    sound = {"team": QUESTIONS["team"], "bill": QUESTIONS["bill"]}

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        alone = await systemone(client, {"state": STATE, "questions": sound})
        good, bad = await asyncio.gather(
            systemone(client, {"state": STATE, "questions": sound}),
            systemone(client, {"state": STATE, "questions": QUESTIONS}),
        )
        assert alone[0] == 200 and good == alone
        assert bad == (500, {"detail": "the model's answer to 'urgency' is not finite: its weights are damaged"})
        assert (await client.get("/health")).status_code == 200

    serve(tmp_path, scenario, "tiny")


def test_bodies_at_the_limit_and_past_it(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "tiny")
    frame = '{"state": "s", "questions": {}, "more": "%s"}'
    room = limits.MAX_BODY_BYTES - len(frame % "")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        assert (await systemone(client, frame % ("x" * room)))[0] == 200
        large = (frame % ("x" * (room + 1))).encode()
        refused = (413, {"detail": "request body too large"})
        assert await systemone(client, large.decode()) == refused

        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(large), 1 << 16):
                yield large[at : at + (1 << 16)]

        streamed = await client.post("/v1/systemone", content=chunks())
        assert (streamed.status_code, streamed.json()) == refused
        assert (await systemone(client, {"state": "x" * 50_000, "questions": QUESTIONS}))[0] == 200

    serve(tmp_path, scenario, "tiny")


def test_routes_that_are_not_there(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "tiny")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/systemone")
        assert answer.status_code == 405 and list(answer.json()) == ["detail"]
        timed = await client.post("/v1/systemone", json={"state": STATE, "questions": QUESTIONS})
        took = float(timed.headers["x-inference-time-ms"])
        assert timed.headers["server-timing"] == f"inference;dur={took:.2f}"

    serve(tmp_path, scenario, "tiny")


def test_identified(tmp_path: Path) -> None:
    from golem_host_laya.plugin import golem_identify

    plugins = load(["laya"])
    settings = resolve([*CORE, *plugins.settings()], {}, {}, None)
    folder = tiny_laya_directory(tmp_path / "tiny", dtype="F16")
    found = golem_identify(folder, settings)
    assert found is not None and not found.problems
    assert ("quantization", "F16") in found.rows and found.setting == "laya-model"
    (folder / "tokenizer" / "tokenizer.json").write_text("{}")
    broken = golem_identify(folder, settings)
    assert broken is not None and "is no tokenizer" in broken.problems[0]
    assert golem_identify(tmp_path, settings) is None


def test_keep_alive_is_read(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "tiny")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        body: Body = {"state": STATE, "questions": QUESTIONS, "keep_alive": "soon"}
        status, answer = await systemone(client, body)
        assert status == 400 and "keep_alive" in answer["detail"]

    serve(tmp_path, scenario, "tiny")


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_abstention(tmp_path: Path, threshold: float) -> None:
    tiny_laya_directory(tmp_path / "tiny")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        _, body = await systemone(client, {"state": STATE, "questions": QUESTIONS, "min_confidence": threshold})
        for answer in body["answers"].values():
            assert answer["abstention"] == ("abstained" if threshold else "passed")
            assert answer.get("low_confidence", False) is bool(threshold)
            assert answer["abstention_threshold"] == threshold

    serve(tmp_path, scenario, "tiny")


def test_a_choice_with_one_option_or_none(tmp_path: Path) -> None:
    tiny_laya_directory(tmp_path / "tiny")

    async def scenario(host: Host, client: httpx.AsyncClient) -> None:
        def asking(criteria: Any) -> Body:
            return {"state": STATE, "questions": {"q": {"type": "choice", "instructions": "i", "criteria": criteria}}}

        status, body = await systemone(client, asking({"only": None}))
        assert status == 200
        assert body["answers"]["q"]["choice"] == "only"
        assert body["answers"]["q"]["probabilities"] == {"only": 1.0}
        status, body = await systemone(client, asking({}))
        assert status == 422 and body["detail"]
        assert (await systemone(client, {"state": STATE, "questions": QUESTIONS}))[0] == 200

    serve(tmp_path, scenario, "tiny")
