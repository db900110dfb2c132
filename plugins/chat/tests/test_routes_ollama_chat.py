"""`/api/chat`: answers, streams, loading and unloading, options, refusals."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.errors import RequestError
from golem_host.http.ollama_options import KNOWN
from scripted_chat import Script, Served, json_lines, serving

ROUTE = "/api/chat"
USER = [{"role": "user", "content": "Hi"}]
THINKING = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if enable_thinking is false %}OFF{% else %}ON{% endif %}{{ reasoning_effort }}"
)


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **options) as served:
            await scenario(served)

    asyncio.run(whole())


async def ask(served: Served, **body: Any) -> httpx.Response:
    return await served.post(ROUTE, **{"model": "scripted", "messages": USER, "stream": False, **body})


async def prompt_text(served: Served, **body: Any) -> str:
    served.model.asked.clear()
    response = await ask(served, **body)
    assert response.status_code == 200, response.text
    async with served.host.registry.use(served.model) as runtime:
        return runtime.tokenizer.decode(served.model.asked[0].prompt, special=True).decode()  # type: ignore[attr-defined]


def test_answer(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        response = await ask(served, model="Scripted:latest")
        assert response.headers["content-type"] == "application/json"
        body = response.json()
        assert body["model"] == "Scripted:latest"
        assert body["message"] == {"role": "assistant", "content": "Hello there."}
        assert (body["done"], body["done_reason"]) == (True, "stop")
        assert body["created_at"].endswith("Z")
        datetime.fromisoformat(body["created_at"][:26])
        assert body["prompt_eval_count"] == len(served.model.asked[0].prompt)
        assert body["eval_count"] == 4
        durations = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
        assert all(isinstance(body[name], int) and body[name] >= 0 for name in durations)
        assert (body["prompt_eval_duration"], body["eval_duration"]) == (2_000_000, 4_000_000)

    run(tmp_path, scenario)


def test_streams_by_default(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        whole = (await ask(served)).json()
        for stream in ({}, {"stream": None}, {"stream": True}):
            response = await served.post(ROUTE, model="scripted", messages=USER, **stream)
            assert response.headers["content-type"] == "application/x-ndjson"
            assert response.content.isascii()
            lines = json_lines(response.text)
            assert "".join(line["message"]["content"] for line in lines) == "Hello there.\u2028"
            assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
            assert all(line["message"]["role"] == "assistant" and line["model"] == "scripted" for line in lines)
            assert lines[-1].keys() == whole.keys()
            assert lines[-1]["message"]["content"] == ""
            assert lines[-1]["done_reason"] == "stop"

    run(tmp_path, scenario, scripts={"Hi": Script((b"Hello", b" there.", "\u2028".encode()))})


def test_error_after_text_is_the_last_line(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        lines = json_lines((await ask(served, stream=True)).text)
        assert lines[-1] == {"error": "broken"}
        assert (await ask(served, messages=[{"role": "user", "content": "x"}])).status_code == 200

    run(tmp_path, scenario, scripts={"Hi": Script((b"a",), error=RequestError("broken"))})


def test_error_before_text_is_a_status(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        response = await ask(served, stream=True)
        assert response.status_code == 500
        assert response.json() == {"error": "broken"}

    run(tmp_path, scenario, scripts={"Hi": Script((), error=RequestError("broken"))})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("nothing", [{}, {"messages": None}, {"messages": []}])
def test_no_messages_load_or_unload(tmp_path: Path, stream: bool, nothing: dict[str, Any]) -> None:
    async def scenario(served: Served) -> None:
        registry = served.host.registry

        async def reply(**more: Any) -> dict[str, Any]:
            response = await served.post(ROUTE, model="scripted", stream=stream, **nothing, **more)
            assert response.status_code == 200
            return response.json()

        unloaded = await reply(keep_alive=0)
        assert unloaded["message"] == {"role": "assistant", "content": ""}
        assert (unloaded["done"], unloaded["done_reason"]) == (True, "unload")
        assert registry.residents() == []
        loaded = await reply(keep_alive="10m")
        assert (loaded["done"], loaded["done_reason"]) == (True, "load")
        assert loaded["load_duration"] > 0
        assert len(registry.residents()) == 1
        assert served.model.loads == 2
        await reply(keep_alive=-1)
        assert registry.residents()[0].expires_at is None
        assert served.model.asked == []

    run(tmp_path, scenario)


def test_keep_alive_zero_unloads_after_the_answer_and_the_next_request_loads(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for stream in (False, True):
            assert (await ask(served, keep_alive=0, stream=stream)).status_code == 200
            async with asyncio.timeout(10):
                while served.host.registry.residents():
                    await asyncio.sleep(0.02)
        loads = served.model.loads
        assert (await ask(served)).status_code == 200
        assert served.model.loads == loads + 1

    run(tmp_path, scenario)


@pytest.mark.parametrize("keep_alive", [True, {}, [], "soon", "5 minutes"])
def test_bad_keep_alive_changes_nothing(tmp_path: Path, keep_alive: Any) -> None:
    async def scenario(served: Served) -> None:
        before = served.host.registry.residents()[0].expires_at
        response = await ask(served, keep_alive=keep_alive)
        assert response.status_code == 400
        assert "keep_alive" in response.json()["error"]
        assert served.host.registry.residents()[0].expires_at == before

    run(tmp_path, scenario)


def test_only_system_messages_are_answered(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = (await ask(served, messages=[{"role": "system", "content": "Be kind."}])).json()
        assert body["done_reason"] == "stop"
        assert body["message"]["content"] == "Hello there."

    run(tmp_path, scenario)


def test_messages(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        messages = [
            {"role": "SYSTEM", "content": "Be brief."},
            {"role": "user"},
            {"role": "assistant", "content": None, "thinking": ""},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        ]
        assert await prompt_text(served, messages=messages) == (
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|im_end|>\n"
            "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        )
        ending = await prompt_text(served, messages=[*USER, {"role": "assistant", "content": "Once"}])
        assert ending.endswith("<|im_start|>assistant\nOnce")

    run(tmp_path, scenario)


def test_refusals(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"messages": "Hi"}, "messages"),
            ({"messages": [3]}, "messages[0]"),
            ({"messages": [{"content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
            ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
            ({"tools": [{"type": "function"}]}, "tools"),
            ({"format": "xml"}, "format"),
            ({"format": {"not": {}}}, "format"),
            ({"stream": "yes"}, "stream"),
            ({"truncate": 1}, "truncate"),
            ({"shift": "no"}, "shift"),
            ({"think": "very"}, "invalid think value"),
            ({"think": 1}, "think"),
            ({"options": []}, "options"),
            ({"model": 3}, "model"),
        ]
        for body, word in cases:
            response = await ask(served, **body)
            assert response.status_code == 400, body
            assert response.json().keys() == {"error"}
            assert word in response.json()["error"], body
        assert served.model.asked == []
        assert (await ask(served, tools=[], format="", images=[], think=False)).status_code == 200

    run(tmp_path, scenario)


def test_model_names(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body in ({}, {"model": ""}, {"model": None}):
            response = await served.post(ROUTE, messages=USER, **body)
            assert (response.status_code, response.json()["error"]) == (400, "model is required")
        response = await ask(served, model="other")
        assert (response.status_code, response.json()["error"]) == (404, "model 'other' not found")

    run(tmp_path, scenario, settings={"any_model": "false"})


def test_file_without_template(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        response = await ask(served)
        assert response.status_code == 400
        assert "raw" in response.json()["error"]

    run(tmp_path, scenario, metadata={"tokenizer.chat_template": None})


def test_thinking(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await prompt_text(served)).endswith("HiOFF")
        assert (await prompt_text(served, think=False)).endswith("HiOFF")
        assert (await prompt_text(served, think=True)).endswith("HiON")
        assert (await prompt_text(served, think="high")).endswith("HiONhigh")

    run(tmp_path, scenario, metadata={"tokenizer.chat_template": THINKING})


def test_thinking_on_a_model_that_cannot(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for think in (True, "low"):
            response = await ask(served, think=think)
            assert response.status_code == 400
            assert response.json()["error"] == '"scripted" does not support thinking'
        assert (await ask(served, think=False)).status_code == 200

    run(tmp_path, scenario)


def test_options_arrive(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        values = {
            "temperature": 0,
            "top_k": 7,
            "top_p": 0.5,
            "min_p": 0.1,
            "typical_p": 0.9,
            "repeat_penalty": 1.1,
            "repeat_last_n": 12,
            "frequency_penalty": -0.5,
            "presence_penalty": 0.25,
            "seed": 42,
            "min_keep": 2,
        }
        options = {**values, "num_predict": 5, "stop": ["x", ""]}
        assert (await ask(served, options=options)).status_code == 200
        generation = served.model.asked[0]
        assert {name: getattr(generation.params, name) for name in values} == values
        assert generation.max_tokens == 5
        assert generation.stops == ("x",)

    run(tmp_path, scenario)


def test_token_limits(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        count = len((await prompt_text(served)).encode())  # only to fill `asked`
        assert count
        prompt = len(served.model.asked[0].prompt)
        room = 256 - prompt
        cases: list[tuple[dict[str, Any], int]] = [
            ({}, 99),
            ({"num_predict": -1}, 99),
            ({"num_predict": -2}, room),
            ({"num_predict": 5}, 5),
            ({"num_predict": 0}, 0),
            ({"num_predict": 10_000}, room),
            ({"num_ctx": 0}, 99),
            ({"num_ctx": 256, "num_predict": -2}, room),
            ({"num_ctx": prompt + 7}, 7),
            ({"num_ctx": prompt + 7, "num_predict": 3}, 3),
        ]
        for options, expected in cases:
            served.model.asked.clear()
            assert (await ask(served, options=options)).status_code == 200, options
            assert served.model.asked[0].max_tokens == expected, options

    run(tmp_path, scenario, max_tokens=99)


def test_num_ctx_over_the_slot(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        response = await ask(served, options={"num_ctx": 257})
        assert response.status_code == 400
        assert all(word in response.json()["error"] for word in ("num_ctx", "257", "256"))

    run(tmp_path, scenario)


def test_repeat_last_n_of_the_whole_context(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await ask(served, options={"repeat_last_n": -1})).status_code == 200
        assert served.model.asked[0].params.repeat_last_n == 256
        response = await ask(served, options={"repeat_last_n": -2})
        assert response.status_code == 400
        assert "repeat_last_n" in response.json()["error"]

    run(tmp_path, scenario)


def test_unknown_and_mistyped_options(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for name in ("xyz", "Temperature", "max_tokens", "tools", ""):
            response = await ask(served, options={name: None})
            assert response.status_code == 400
            assert f"unknown option '{name}'" in response.json()["error"]
        for name in KNOWN:
            response = await ask(served, options={name: {}})
            assert response.status_code == 400, name
            assert name in response.json()["error"]
            assert (await ask(served, options={name: None})).status_code == 200, name
        for name, value in (("num_gpu", 1.5), ("use_mmap", 1), ("num_ctx", -1), ("num_predict", -3), ("stop", [1])):
            response = await ask(served, options={name: value})
            assert response.status_code == 400, name
            assert name in response.json()["error"]

    run(tmp_path, scenario)


def test_too_long_conversation_loses_its_oldest_turns(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        turns = [{"role": "system", "content": "Be brief."}]
        for index in range(12):
            turns += [{"role": "user", "content": f"u{index}"}, {"role": "assistant", "content": f"a{index}"}]
        turns.append({"role": "user", "content": "last"})
        text = await prompt_text(served, messages=turns)
        assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nu")
        assert text.endswith("<|im_start|>user\nlast<|im_end|>\n<|im_start|>assistant\n")
        assert "u0" not in text and "u11" in text and "a11" in text
        assert text.count("u") > 2
        prompt = served.model.asked[0].prompt
        first = int(text.split("user\nu")[1].split("<")[0])
        assert len(prompt) < 256
        # One turn more would not have fitted.
        fuller = [turns[0], *turns[1 + 2 * (first - 1) :]]
        refused = await ask(served, messages=fuller, truncate=False)
        assert refused.status_code == 400
        assert "exceeds the available context size (256 tokens)" in refused.json()["error"]
        assert (await ask(served, messages=turns, truncate=None)).status_code == 200

    run(tmp_path, scenario)


def test_one_turn_that_does_not_fit(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        long = {"role": "user", "content": "1" * 300}
        for messages in ([long], [*USER, {"role": "assistant", "content": "a"}, long]):
            response = await ask(served, messages=messages)
            assert response.status_code == 400
            assert "exceeds the available context size" in response.json()["error"]
        assert served.model.asked == []
        assert (await ask(served)).status_code == 200

    run(tmp_path, scenario)


def test_conversation_is_fitted_under_num_ctx(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        turns = [*USER, {"role": "assistant", "content": "x" * 60}, {"role": "user", "content": "Now"}]
        text = await prompt_text(served, messages=turns, options={"num_ctx": 64})
        assert text == "<|im_start|>user\nNow<|im_end|>\n<|im_start|>assistant\n"
        assert "x" * 60 in await prompt_text(served, messages=turns)

    run(tmp_path, scenario)
