"""Log probabilities on every route that has them: shapes, limits, streamed as whole."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import openai
import pytest

from golem_host_chat.likelihoods import Probabilities
from scripted_chat import Script, Served, serving, sse_events

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": "Hi"}]
SCRIPTS = {
    "bytes": Script(tuple(bytes([byte]) for byte in "aé!".encode())),
    "stopped": Script((b"one", b" O", b" P", b" Q two")),
    "held": Script((b"one", b" O", b" no")),
}


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **{"scripts": SCRIPTS, **options}) as served:
            await scenario(served)

    asyncio.run(whole())


async def both(served: Served, path: str, **body: Any) -> tuple[list[Any], list[Any]]:
    """The entries of the whole answer and those of its chunks."""
    whole = (await served.post(path, **body)).json()["choices"][0]
    events = sse_events((await served.post(path, **body, stream=True)).text)[:-1]
    choices = [choice for event in events for choice in event["choices"]]
    assert choices[-1]["finish_reason"] is not None and choices[-1]["logprobs"] is None
    for choice in choices:
        text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
        entries = (choice["logprobs"] or {"content": []})["content"]
        assert "".join(entry["token"] for entry in entries) == text
    streamed = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
    return (whole["logprobs"] or {"content": []})["content"], streamed


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_entries(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        asked = (
            {"messages": USER, "logprobs": True, "top_logprobs": 2} if path == CHAT else {"prompt": "Hi", "logprobs": 2}
        )
        whole, streamed = await both(served, path, **asked)
        assert whole == streamed
        assert served.model.asked[-1].extras.probs == Probabilities(2)
        assert [entry["token"] for entry in whole] == ["Hello", " there", ".", ""]
        first = whole[0]
        assert list(first) == ["id", "token", "bytes", "logprob", "top_logprobs"]
        assert (first["bytes"], first["logprob"]) == (list(b"Hello"), 1.0)
        assert [list(top) for top in first["top_logprobs"]] == [["id", "token", "bytes", "logprob"]] * 2
        assert [top["id"] for top in first["top_logprobs"]] == [0, 1]

    run(tmp_path, scenario)


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_characters_of_several_tokens_and_text_held_back(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        def asked(word: str) -> dict[str, Any]:
            prompt = {"messages": [{"role": "user", "content": word}], "logprobs": True} if path == CHAT else {}
            return prompt or {"prompt": word, "logprobs": 1}

        whole, streamed = await both(served, path, **asked("bytes"))
        assert whole == streamed and [entry["token"] for entry in whole] == ["a", "é", "!", ""]
        whole, streamed = await both(served, path, **asked("held"), stop=["O P Q"])
        assert whole == streamed and [entry["token"] for entry in whole] == ["one", " ", "O no", ""]
        whole, streamed = await both(served, path, **asked("stopped"), stop=[" O P Q"])
        assert whole == streamed and [entry["token"] for entry in whole] == ["one"]

    run(tmp_path, scenario)


def test_twenty_alternatives_of_a_chat_unless_told_otherwise(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body, probs in (
            ({}, None),
            ({"logprobs": False, "top_logprobs": None}, None),
            ({"logprobs": True}, Probabilities(20)),
            ({"logprobs": True, "top_logprobs": 0}, Probabilities(0)),
            ({"n_probs": 100}, Probabilities(100)),
            ({"n_probs": 3, "post_sampling_probs": True}, Probabilities(3, after=True)),
        ):
            answer = await served.post(CHAT, messages=USER, **body)
            assert answer.status_code == 200, answer.text
            assert served.model.asked[-1].extras.probs == probs
            assert (answer.json()["choices"][0]["logprobs"] is None) == (probs is None)
        entry = answer.json()["choices"][0]["logprobs"]["content"][0]
        assert list(entry) == ["id", "token", "bytes", "prob", "top_probs"]
        assert list(entry["top_probs"][0]) == ["id", "token", "bytes", "prob"]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (CHAT, {"top_logprobs": 3}, "Field 'top_logprobs': top_logprobs requires logprobs to be set to true"),
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "Field 'top_logprobs': expected a value from 0 to 20, got 21"),
        (CHAT, {"logprobs": 3}, "Field 'logprobs': expected a boolean, got a number"),
        (CHAT, {"n_probs": 101}, "Field 'n_probs': expected a value from 0 to 100, got 101"),
        (TEXT, {"logprobs": 21}, "Field 'logprobs': expected a value from 0 to 20, got 21"),
        (TEXT, {"logprobs": True}, "Field 'logprobs': expected an integer, got a boolean"),
        ("/api/chat", {"top_logprobs": 21}, "Field 'top_logprobs': top_logprobs must be between 0 and 20"),
        ("/api/generate", {"top_logprobs": -1}, "Field 'top_logprobs': top_logprobs must be between 0 and 20"),
    ],
)
def test_refusals(tmp_path: Path, path: str, body: dict[str, Any], message: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post(path, model=served.model.name, messages=USER, prompt="Hi", **body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error if isinstance(error, str) else error["message"]) == message

    run(tmp_path, scenario)


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_ollama(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        body = {"model": served.model.name, "messages": USER, "prompt": "Hi", "logprobs": True, "top_logprobs": 1}
        whole = (await served.post(path, **body, stream=False)).json()["logprobs"]
        lines = [json.loads(line) for line in (await served.post(path, **body)).text.splitlines()]
        assert "logprobs" not in lines[-1] and lines[-1]["done"]
        assert [entry for line in lines for entry in line.get("logprobs", [])] == whole
        assert [entry["token"] for entry in whole] == ["Hello", " there", ".", ""]
        assert list(whole[0]) == ["token", "logprob", "bytes", "top_logprobs"]
        assert list(whole[0]["top_logprobs"][0]) == ["token", "bytes", "logprob"]
        assert list(whole[-1]) == ["token", "logprob", "top_logprobs"]
        for few in ({"top_logprobs": 0}, {"top_logprobs": None}):
            plain = (await served.post(path, **{**body, **few}, stream=False)).json()["logprobs"]
            assert list(plain[0]) == ["token", "logprob", "bytes"]
        assert "logprobs" not in (await served.post(path, **{**body, "logprobs": None}, stream=False)).json()

    run(tmp_path, scenario)


def test_responses(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for word, stop in (("Hi", None), ("bytes", None), ("held", ["O P Q"]), ("stopped", [" O P Q"])):
            body = {"input": word, "stop": stop, "top_logprobs": 1}
            whole = (await served.post("/v1/responses", **body)).json()["output"][0]["content"][0]
            assert whole["text"].startswith("".join(entry["token"] for entry in whole["logprobs"]))
            assert list(whole["logprobs"][0]) == ["token", "bytes", "logprob", "top_logprobs"]
            answer = await served.post("/v1/responses", **body, stream=True)
            events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
            deltas = [event for event in events if event["type"] == "response.output_text.delta"]
            assert [entry for event in deltas for entry in event["logprobs"]] == whole["logprobs"]
            [done] = [event for event in events if event["type"] == "response.output_text.done"]
            assert done["logprobs"] == whole["logprobs"]
            assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == whole["logprobs"]
        plain = (await served.post("/v1/responses", input="Hi")).json()["output"][0]["content"][0]
        assert plain["logprobs"] == [] and served.model.asked[-1].extras.probs is None
        await served.post("/v1/responses", input="Hi", include=["message.output_text.logprobs"])
        assert served.model.asked[-1].extras.probs == Probabilities(0)

    run(tmp_path, scenario)


def test_openais_client_reads_them(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        client = openai.AsyncOpenAI(
            base_url="http://localhost/v1", api_key="none", http_client=cast(Any, served.client)
        )
        answer = await client.chat.completions.create(
            model=served.model.name, messages=[{"role": "user", "content": "Hi"}], logprobs=True, top_logprobs=2
        )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None and logprobs.content is not None
        assert [entry.token for entry in logprobs.content] == ["Hello", " there", ".", ""]
        assert len(logprobs.content[0].top_logprobs) == 2
        async with client.chat.completions.stream(
            model=served.model.name, messages=[{"role": "user", "content": "Hi"}], logprobs=True
        ) as stream:
            async for _ in stream:
                pass
            final = (await stream.get_final_completion()).choices[0]
        assert final.message.content == "Hello there."
        assert final.logprobs is not None and final.logprobs.content is not None
        assert [entry.token for entry in final.logprobs.content] == ["Hello", " there", ".", ""]

    run(tmp_path, scenario)
