"""`/v1/embeddings` and llama-server's own shape, over a scripted model."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host_embed.tokens import Frame, Tokens
from scripted_embed import Served, serving, vector_of

Scenario = Callable[[Served], Coroutine[Any, Any, None]]


def run(folder: Path, scenario: Scenario, **settings: str) -> None:
    async def whole() -> None:
        async with serving(folder, settings=settings) as served:
            await scenario(served)

    asyncio.run(whole())


def expected(ids: list[int], width: int | None = None) -> np.ndarray:
    vector = np.array(vector_of(Tokens(ids)), np.float32)[:width].astype(np.float64)
    return vector / np.linalg.norm(vector)


def test_one_text_and_several(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        [hello, world] = ([2, 60, 3], [2, 61, 3])
        for value, texts in (
            ("Hello", [hello]),
            (["hello", "world"], [hello, world]),
            ([2, 61, 3], [world]),
            ([[2, 61, 3], [60]], [world, [60]]),
            (["world", hello], [world, hello]),
            ("", [[2, 3]]),
            (["", "hello"], [[2, 3], hello]),
        ):
            answer = await served.post("/v1/embeddings", model="scripted", input=value)
            body = answer.json()
            assert answer.status_code == 200, body
            assert (body["object"], body["model"]) == ("list", "scripted")
            assert [item["index"] for item in body["data"]] == list(range(len(texts)))
            assert {item["object"] for item in body["data"]} == {"embedding"}
            for item, ids in zip(body["data"], texts, strict=True):
                assert item["embedding"] == pytest.approx(expected(ids), abs=1e-7)
            count = sum(map(len, texts))
            assert body["usage"] == {"prompt_tokens": count, "total_tokens": count}

    run(tmp_path, scenario)


def test_base64_and_dimensions(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for dimensions in (None, 1, 3, 8):
            numbers, text = [
                (
                    await served.post(
                        "/v1/embeddings",
                        input=["hello", "world"],
                        encoding_format=kind,
                        **({} if dimensions is None else {"dimensions": dimensions}),
                    )
                ).json()["data"]
                for kind in ("float", "base64")
            ]
            for number, encoded, ids in zip(numbers, text, ([2, 60, 3], [2, 61, 3]), strict=True):
                decoded = np.frombuffer(base64.b64decode(encoded["embedding"], validate=True), "<f4")
                assert decoded.tolist() == np.float32(number["embedding"]).tolist()
                assert decoded == pytest.approx(expected(ids, dimensions), abs=1e-7)

    run(tmp_path, scenario)


def test_llama_server_norms(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        raw = vector_of(Tokens([2, 60, 3]))
        for norm, divisor in ((-1, 1.0), (0, max(map(abs, raw)) / 32760), (1, sum(map(abs, raw)))):
            body = (await served.post("/v1/embeddings", input="hello", embd_normalize=norm)).json()
            assert body["data"][0]["embedding"] == pytest.approx(np.array(raw) / divisor, rel=1e-6)

    run(tmp_path, scenario)


@pytest.mark.parametrize("path", ["/embedding", "/embeddings", "/v1/embeddings"])
def test_llama_server_shape(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post(path, content=["hello", "world"])
        assert answer.status_code == 200
        assert [item.keys() for item in answer.json()] == [{"index", "embedding"}] * 2
        assert answer.json()[1]["index"] == 1
        assert answer.json()[1]["embedding"] == [pytest.approx(expected([2, 61, 3]), abs=1e-7)]
        if path != "/v1/embeddings":
            raw = await served.post(path, input="hello", embd_normalize=-1)
            assert raw.json()[0]["embedding"] == [pytest.approx(vector_of(Tokens([2, 60, 3])), rel=1e-6)]
            wrong = await served.post(path, input=[])
            assert wrong.json() == {
                "error": {"code": 400, "message": '"input" must not be empty', "type": "invalid_request_error"}
            }

    run(tmp_path, scenario)


LONG = "hello " * 31

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({}, '"input" or "content" must be provided', "input"),
    ({"input": None}, '"input" or "content" must be provided', "input"),
    ({"input": []}, '"input" must not be empty', "input"),
    ({"input": [[]]}, "Field 'input': expected a string", "input"),
    ({"input": [1.5]}, "Field 'input': expected a string", "input"),
    ({"input": [True]}, "Field 'input': expected a string", "input"),
    ({"input": 3}, "Field 'input': expected a string", "input"),
    ({"input": {"a": 1}}, "Field 'input': expected a string", "input"),
    ({"input": ["a", 1]}, "Field 'input': expected a string", "input"),
    ({"input": ["a", None]}, "Field 'input': expected a string", "input"),
    ({"input": [["a"]]}, "Field 'input': expected a string", "input"),
    ({"input": [2, -1]}, "text 0 of 'input': -1 is no token id of this model (0 to 107)", "input"),
    ({"input": ["a", [2, 99999]]}, "text 1 of 'input': 99999 is no token id", "input"),
    ({"input": ["a"] * 2049}, '"input" has 2049 texts; one request may have 2048', "input"),
    ({"input": "a", "encoding_format": "hex"}, "Can be either float or base64", "encoding_format"),
    ({"input": "a", "encoding_format": 3}, "Field 'encoding_format': expected a string", "encoding_format"),
    ({"input": "a", "dimensions": 0}, "Field 'dimensions': expected a value from 1", "dimensions"),
    ({"input": "a", "dimensions": -4}, "Field 'dimensions': expected a value from 1", "dimensions"),
    ({"input": "a", "dimensions": "8"}, "Field 'dimensions': expected an integer", "dimensions"),
    ({"input": "a", "dimensions": 9}, "9 is more than the 8 that model 'scripted' gives", "dimensions"),
    ({"input": "a", "embd_normalize": -2}, "Field 'embd_normalize': expected a value from -1", "embd_normalize"),
    ({"input": "a", "user": 1}, "Field 'user': expected a string", "user"),
    ({"input": "a", "model": ["x"]}, "Field 'model': expected a string", "model"),
    ({"input": "a", "keep_alive": "soon"}, "keep_alive: ", "keep_alive"),
]  # fmt: skip


def test_refusals(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body, message, param in REFUSED:
            answer = await served.post("/v1/embeddings", **body)
            assert answer.status_code == 400, body
            error = answer.json()["error"]
            assert message in error["message"], error
            assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert served.model.seen == []

    run(tmp_path, scenario)


def test_texts_that_are_too_long(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        fits = await served.post("/v1/embeddings", input="hello " * 30)
        assert fits.json()["usage"]["prompt_tokens"] == 32
        for value, message in (
            (LONG, "'input' has 33 tokens, special ones included; the model takes 32: cut or split it"),
            (["a", LONG], "text 1 of 'input' has 33 tokens"),
            (["a", [60] * 40], "text 1 of 'input' has 40 tokens"),
            ("hello " * 2_000_000, "'input' has at least 10"),
        ):
            answer = await served.post("/v1/embeddings", input=value)
            error = answer.json()["error"]
            assert answer.status_code == 400
            assert message in error["message"], error
            assert (error["type"], error["code"], error["param"]) == ("exceed_context_size_error",) * 2 + ("input",)
            assert error["n_ctx"] == 32
            assert error["n_prompt_tokens"] > 32
        assert len(served.model.seen) == 1

    run(tmp_path, scenario)


def test_a_long_text_of_few_tokens(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/embeddings", input=" " * 300_000 + "hello")
        assert answer.json()["usage"]["prompt_tokens"] == 3

    run(tmp_path, scenario)


def test_a_text_without_tokens(tmp_path: Path) -> None:
    """A tokenizer that puts nothing around a text has none for an empty one."""

    async def scenario(served: Served) -> None:
        async with served.host.registry.use(served.model) as runtime:
            runtime.tokens.frame = Frame((), (), (), 0)  # type: ignore[attr-defined]
            for path, field in (("/v1/embeddings", "input"), ("/embedding", "content"), ("/api/embed", "input")):
                for value in (["hello", ""], ["hello", "  "]):
                    answer = await served.post(path, model="scripted", **{field: value})
                    assert answer.status_code == 400
                    assert "text 1 is empty: the model's tokenizer makes no tokens of it" in answer.text
            assert (await served.post("/v1/embeddings", input="hello")).status_code == 200
        assert [text.ids for text in served.model.seen] == [[60]]

    run(tmp_path, scenario, keep_alive="-1")


def test_models_by_name(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for name in (None, "scripted", "SCRIPTED:latest", "embed", "anything"):
            body = {"input": "a"} if name is None else {"input": "a", "model": name}
            assert (await served.post("/v1/embeddings", **body)).json()["model"] == "scripted"
        chat = await served.post("/v1/embeddings", input="a", model="talker")
        assert chat.status_code == 400
        message = "model 'talker' serves chat, not embed; use /v1/chat/completions or /api/chat"
        assert chat.json()["error"]["message"] == message
        ranker = await served.post("/embedding", input="a", model="ranker")
        assert "model 'ranker' serves rerank, not embed" in ranker.json()["error"]["message"]

    run(tmp_path, scenario)


def test_an_unknown_model(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/embeddings", input="a", model="other")
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"

    run(tmp_path, scenario, any_model="false")


def test_a_failing_pass(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        def fail() -> None:
            raise ArithmeticError("boom")

        served.model.before_pass = fail
        answer = await served.post("/v1/embeddings", input="hello")
        assert answer.status_code == 500
        served.model.before_pass = lambda: None
        assert (await served.post("/v1/embeddings", input="hello")).status_code == 200

    run(tmp_path, scenario)


def test_a_full_queue(tmp_path: Path) -> None:
    gate = threading.Event()

    async def scenario(served: Served) -> None:
        served.model.before_pass = partial(wait_for, gate)
        waiting = [asyncio.create_task(served.post("/v1/embeddings", input="a")) for _ in range(4)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=30)
        gate.set()
        answers = [answer.result() for answer in done]
        assert {answer.status_code for answer in answers} == {503}
        assert all(answer.headers["retry-after"] for answer in answers)
        assert sorted([(await task).status_code for task in waiting])[0] == 200

    run(tmp_path, scenario, queue="1")


def wait_for(gate: threading.Event) -> None:
    assert gate.wait(30)


def test_a_client_that_leaves_while_it_waits(tmp_path: Path) -> None:
    gate, entered = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        wait_for(gate)

    async def scenario(served: Served) -> None:
        served.model.before_pass = hold
        first = asyncio.create_task(served.post("/v1/embeddings", input="hello"))
        await asyncio.to_thread(entered.wait, 30)
        left = asyncio.create_task(served.post("/v1/embeddings", input="world"))
        lane = served.host.devices["cpu"].lanes[0]
        while not lane.state()["queued"]:
            await asyncio.sleep(0.001)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        gate.set()
        assert (await first).status_code == 200
        assert [text.ids for text in served.model.seen] == [[2, 60, 3]]

    run(tmp_path, scenario)


def test_many_clients_at_once(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        texts = ["hello", "world", "the king", "un", "queries", "engine ing", "9", ""]
        alone = [(await served.post("/v1/embeddings", input=text)).json()["data"] for text in texts]
        together = await asyncio.gather(*(served.post("/v1/embeddings", input=text) for text in texts * 4))
        assert [answer.json()["data"] for answer in together] == alone * 4
        batch = (await served.post("/v1/embeddings", input=texts)).json()["data"]
        assert [item["embedding"] for item in batch] == [data[0]["embedding"] for data in alone]

    run(tmp_path, scenario)
