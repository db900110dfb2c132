"""`/api/generate`: templates and raw prompts, the context of earlier answers, loading and unloading, refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripted_chat import Served, json_lines, serving

ROUTE = "/api/generate"


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **options) as served:
            await scenario(served)

    asyncio.run(whole())


async def ask(served: Served, **body: Any) -> httpx.Response:
    return await served.post(ROUTE, **{"model": "scripted", "prompt": "Hi", "stream": False, **body})


async def answered(served: Served, **body: Any) -> tuple[dict[str, Any], list[int]]:
    """The answer, and the prompt the lane was given."""
    served.model.asked.clear()
    response = await ask(served, **body)
    assert response.status_code == 200, response.text
    return response.json(), served.model.asked[0].prompt


async def tokens(served: Served, text: str, **how: bool) -> list[int]:
    async with served.host.registry.use(served.model) as runtime:
        return runtime.tokenizer.encode(text, **how)  # type: ignore[attr-defined]


TEMPLATED = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_answer(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body, prompt = await answered(served, model="scripted:latest")
        assert body["model"] == "scripted:latest"
        assert body["response"] == "Hello there."
        assert (body["done"], body["done_reason"]) == (True, "stop")
        assert body["prompt_eval_count"] == len(prompt)
        assert body["eval_count"] == 4
        assert prompt == await tokens(served, TEMPLATED)
        assert body["context"] == [*prompt, 0, 0, 0, 0]
        assert "message" not in body

    run(tmp_path, scenario)


def test_stream(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        whole, _ = await answered(served)
        for stream in ({}, {"stream": True}):
            response = await served.post(ROUTE, model="scripted", prompt="Hi", **stream)
            lines = json_lines(response.text)
            assert [line["response"] for line in lines] == ["Hello", " there", ".", ""]
            assert lines[-1].keys() == whole.keys()
            assert lines[-1]["context"] == whole["context"]
            assert all("context" not in line for line in lines[:-1])

    run(tmp_path, scenario)


def test_system(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        _, prompt = await answered(served, system="Be brief.")
        assert prompt == await tokens(served, "<|im_start|>system\nBe brief.<|im_end|>\n" + TEMPLATED)

    run(tmp_path, scenario)


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_raw(tmp_path: Path, architecture: str) -> None:
    async def scenario(served: Served) -> None:
        body, prompt = await answered(served, raw=True, prompt="The <|im_end|>")
        assert prompt == await tokens(served, "The <|im_end|>")
        assert "context" not in body
        for more in ({"system": "x"}, {"template": "x"}, {"context": [1]}):
            response = await ask(served, raw=True, **more)
            assert response.status_code == 400
            assert response.json() == {"error": "raw mode does not support template, system, context, or format"}
        assert (await ask(served, raw=True, system="", context=[], template=None)).status_code == 200

    run(tmp_path, scenario, architecture=architecture)


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_context_goes_before_the_prompt(tmp_path: Path, architecture: str) -> None:
    async def scenario(served: Served) -> None:
        first, prompt = await answered(served)
        second, longer = await answered(served, context=first["context"])
        without_start = prompt[1:] if architecture == "gemma3" else prompt
        assert longer == first["context"] + without_start
        assert second["context"] == [*longer, 0, 0, 0, 0]

    run(tmp_path, scenario, architecture=architecture)


@pytest.mark.parametrize("context", [3, "abc", {}, [1.5], [True], [-1], [10_000], ["a"], [None]])
def test_bad_context(tmp_path: Path, context: Any) -> None:
    async def scenario(served: Served) -> None:
        response = await ask(served, context=context)
        assert response.status_code == 400
        assert "context" in response.json()["error"]
        assert served.model.asked == []

    run(tmp_path, scenario)


def test_context_is_shortened_from_its_beginning(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        context = [5] * 50 + [6] * 250
        _, prompt = await answered(served, context=context)
        assert len(prompt) == 255
        own = await tokens(served, TEMPLATED)
        assert prompt == [6] * (255 - len(own)) + own
        response = await ask(served, context=context, truncate=False)
        assert response.status_code == 400
        assert f"({300 + len(own)} tokens)" in response.json()["error"]
        response = await ask(served, context=context, prompt="1" * 300)
        assert response.status_code == 400
        assert "exceeds the available context size (256 tokens)" in response.json()["error"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("raw", [True, False])
def test_long_prompt(tmp_path: Path, raw: bool) -> None:
    async def scenario(served: Served) -> None:
        response = await ask(served, prompt="1" * 300, raw=raw)
        assert response.status_code == 400
        assert "exceeds the available context size (256 tokens)" in response.json()["error"]
        assert served.model.asked == []
        response = await ask(served, options={"num_ctx": 8}, prompt="1" * 8, raw=raw)
        assert response.status_code == 400

    run(tmp_path, scenario)


def test_file_without_template_continues_the_prompt(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body, prompt = await answered(served)
        assert prompt == await tokens(served, "Hi")
        _, longer = await answered(served, context=body["context"])
        assert longer == body["context"] + await tokens(served, "Hi", add_special=False)
        response = await ask(served, system="x")
        assert response.status_code == 400
        assert "system" in response.json()["error"]

    run(tmp_path, scenario, architecture="gemma3", metadata={"tokenizer.chat_template": None})


@pytest.mark.parametrize("prompt", [{}, {"prompt": ""}, {"prompt": None}])
def test_no_prompt_loads_or_unloads(tmp_path: Path, prompt: dict[str, Any]) -> None:
    async def scenario(served: Served) -> None:
        unloaded = await served.post(ROUTE, model="scripted", keep_alive="0", **prompt)
        assert unloaded.json()["done_reason"] == "unload"
        assert unloaded.json()["response"] == ""
        assert served.host.registry.residents() == []
        loaded = await served.post(ROUTE, model="scripted", system="x", **prompt)
        assert (loaded.json()["done"], loaded.json()["done_reason"]) == (True, "load")
        assert len(served.host.registry.residents()) == 1
        assert served.model.asked == []

    run(tmp_path, scenario)


def test_refusals(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"suffix": "x"}, "does not support insert"),
            ({"template": "{{ .Prompt }}"}, "template"),
            ({"images": ["aGk="]}, "images"),
            ({"format": []}, "format"),
            ({"format": "json", "raw": True}, "raw mode does not support"),
            ({"width": 512}, "width"),
            ({"prompt": 3}, "prompt"),
            ({"system": []}, "system"),
            ({"raw": "yes"}, "raw"),
            ({"think": True}, "does not support thinking"),
            ({"options": {"xyz": 1}}, "xyz"),
            ({"suffix": "x", "system": "y"}, "a prompt with a suffix"),
            ({"suffix": "x", "raw": True}, "a prompt with a suffix"),
            ({"suffix": "x", "think": True}, "a prompt with a suffix"),
            ({"suffix": 7}, "suffix"),
        ]
        for body, word in cases:
            response = await ask(served, **body)
            assert response.status_code == 400, body
            assert word in response.json()["error"], body
        assert served.model.asked == []
        neutral = {
            "suffix": "",
            "template": "",
            "images": [],
            "format": None,
            "width": 0,
            "context": [],
            "think": False,
        }
        assert (await ask(served, **neutral)).status_code == 200

    run(tmp_path, scenario)


def test_model_names(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body in ({}, {"model": ""}):
            response = await served.post(ROUTE, prompt="Hi", **body)
            assert (response.status_code, response.json()["error"]) == (404, "model '' not found")
        response = await ask(served, model="other")
        assert (response.status_code, response.json()["error"]) == (404, "model 'other' not found")

    run(tmp_path, scenario, settings={"any_model": "false"})
