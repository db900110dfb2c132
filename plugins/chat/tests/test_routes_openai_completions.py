"""`/v1/completions`: shapes of prompts, echo, several prompts with several answers each."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host_chat.routes.prompt_shapes import prompt_segments
from scripted_chat import Served, serving, sse_events

ROUTE = "/v1/completions"


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **options) as served:
            await scenario(served)

    asyncio.run(whole())


async def tokens(served: Served, text: str, **how: bool) -> list[int]:
    async with served.host.registry.use(served.model) as runtime:
        return runtime.tokenizer.encode(text, **how)  # type: ignore[attr-defined]


def test_answer(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = (await served.post(ROUTE, prompt="The world", model="scripted")).json()
        assert re.fullmatch(r"cmpl-[A-Za-z0-9]{32}", body["id"])
        assert body["object"] == "text_completion"
        assert body["model"] == "scripted"
        assert body["choices"] == [{"index": 0, "text": "Hello there.", "logprobs": None, "finish_reason": "stop"}]
        assert body["usage"]["completion_tokens"] == 4
        assert served.model.asked[0].prompt == await tokens(served, "The world")

    run(tmp_path, scenario)


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_shapes(tmp_path: Path, architecture: str) -> None:
    """Leading texts get the start token the vocabulary asks for; token ids stand as they are."""

    async def scenario(served: Served) -> None:
        start = await tokens(served, "")
        one = await tokens(served, "The", add_special=False)
        two = await tokens(served, " world<|im_end|>", add_special=False)
        cases: list[tuple[Any, list[list[int]]]] = [
            ("The", [start + one]),
            (["The"], [start + one]),
            ([5, 6], [[5, 6]]),
            (["The", 7, " world<|im_end|>"], [start + one + [7] + two]),
            ([7, "The"], [[7, *one]]),
            (["The", "The"], [start + one] * 2),
            ([[5, 6], [7]], [[5, 6], [7]]),
            (["The", [7, "The"], [8]], [start + one, [7, *one], [8]]),
        ]
        for prompt, expected in cases:
            served.model.asked.clear()
            response = await served.post(ROUTE, prompt=prompt, max_tokens=1)
            assert response.status_code == 200, response.text
            assert sorted(generation.prompt for generation in served.model.asked) == sorted(expected), prompt
            assert response.json()["usage"]["prompt_tokens"] == sum(map(len, expected))

    run(tmp_path, scenario, architecture=architecture, slots=2)


@pytest.mark.parametrize(
    "prompt",
    [
        *(None, [], True, 3, {"prompt_string": "a", "multimodal_data": []}, [[]], ["a", []], [["a", None]], [True]),
        *([1, True], [1.5], [1, [2]], ["a", None], [{"prompt_string": "a"}], [-1], [1_000_000], ["a", [10**30]]),
        # The tiny vocabulary adds no start token that could stand for an empty prompt.
        *("", [""], ["a", ""]),
    ],
)
def test_bad_prompt_is_named(tmp_path: Path, prompt: Any) -> None:
    async def scenario(served: Served) -> None:
        response = await served.post(ROUTE, prompt=prompt)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "prompt"
        assert served.model.asked == []
        assert (await served.post(ROUTE, prompt="a")).status_code == 200

    run(tmp_path, scenario)


def test_empty_prompt_is_the_start_token(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.post(ROUTE, prompt="")).status_code == 200
        assert served.model.asked[0].prompt == await tokens(served, "")
        assert len(served.model.asked[0].prompt) == 1

    run(tmp_path, scenario, architecture="gemma3")


def test_several_prompts_with_several_answers(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = (await served.post(ROUTE, prompt=["a", "bc"], n=2, echo=True, seed=7)).json()
        assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
        texts = [choice["text"] for choice in body["choices"]]
        assert texts == ["aHello there.", "aHello there.", "bcHello there.", "bcHello there."]
        assert body["usage"]["prompt_tokens"] == 3
        assert body["usage"]["completion_tokens"] == 16
        assert sorted((len(g.prompt), g.params.seed) for g in served.model.asked) == [(1, 7), (1, 8), (2, 7), (2, 8)]

    run(tmp_path, scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_echo(tmp_path: Path, stream: bool) -> None:
    async def scenario(served: Served) -> None:
        cases: list[tuple[Any, str]] = [
            ("The <|im_end|>", "The <|im_end|>"),
            (await tokens(served, "The \U0001f600"), "The \U0001f600"),
            (["a", 337], "a"),
        ]
        for prompt, text in cases:
            for more, answer in (({}, "Hello there."), ({"max_tokens": 0}, "")):
                response = await served.post(ROUTE, prompt=prompt, echo=True, stream=stream, **more)
                if stream:
                    events = sse_events(response.text)[:-1]
                    assert events[0]["choices"][0]["text"] == text
                    assert "".join(event["choices"][0]["text"] for event in events) == text + answer
                else:
                    assert response.json()["choices"][0]["text"] == text + answer

    run(tmp_path, scenario)


def test_one_long_prompt_refuses_all(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        response = await served.post(ROUTE, prompt=["a", [1] * 32])
        assert response.status_code == 400
        assert response.json()["error"]["n_prompt_tokens"] == 32
        assert served.model.asked == []
        assert (await served.post(ROUTE, prompt=[1] * 31, max_tokens=1)).status_code == 200

    run(tmp_path, scenario, context=32)


def test_more_choices_than_the_queue_holds(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        response = await served.post(ROUTE, prompt=["a"] * 5, n=2)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "prompt"
        assert (await served.post(ROUTE, prompt=["a"] * 4, n=2)).status_code == 200

    run(tmp_path, scenario, queue_limit=8)


def test_file_without_template(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        assert (await served.post(ROUTE, prompt="a")).status_code == 200

    run(tmp_path, scenario, metadata={"tokenizer.chat_template": None})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)


@given(json_values)
def test_any_prompt_is_split_or_refused(value: Any) -> None:
    try:
        prompts = prompt_segments(value)
    except BadRequest as error:
        assert error.param == "prompt"
        return
    assert prompts
    for segments in prompts:
        assert segments
        assert all(isinstance(s, str) or (isinstance(s, int) and not isinstance(s, bool)) for s in segments)
