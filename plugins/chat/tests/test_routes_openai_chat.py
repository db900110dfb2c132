"""`/v1/chat/completions`: what a request becomes, what comes back, what is refused."""

from __future__ import annotations

import asyncio
import json
import math
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.errors import BadRequest
from golem_host_chat.generation import Generation
from scripted_chat import Script, ScriptedModel, serving

ROUTE = "/v1/chat/completions"
USER = [{"role": "user", "content": "Hi"}]
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}<think></think>{% endif %}"
    "{{ reasoning_effort }}{% endif %}"
)


def ask(folder: Path, body: dict[str, Any], **options: Any) -> tuple[httpx.Response, ScriptedModel]:
    async def scenario() -> tuple[httpx.Response, ScriptedModel]:
        async with serving(folder, **options) as served:
            return await served.post(ROUTE, **body), served.model

    return asyncio.run(scenario())


def answered(folder: Path, body: dict[str, Any], **options: Any) -> tuple[dict[str, Any], Generation]:
    """The answer's body, and what the lane was asked."""
    response, model = ask(folder, body, **options)
    assert response.status_code == 200, response.text
    return response.json(), model.asked[0]


def refused(folder: Path, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The error; nothing may have reached the lane."""
    response, model = ask(folder, body, **options)
    assert response.status_code == 400, response.text
    assert model.asked == []
    error = response.json()["error"]
    assert error["type"] in ("invalid_request_error", "exceed_context_size_error")
    return error


def prompt_text(folder: Path, body: dict[str, Any], **options: Any) -> str:
    async def scenario() -> str:
        async with serving(folder, **options) as served:
            response = await served.post(ROUTE, **body)
            assert response.status_code == 200, response.text
            async with served.host.registry.use(served.model) as runtime:
                decoded = runtime.tokenizer.decode(served.model.asked[0].prompt, special=True)  # type: ignore[attr-defined]
        return decoded.decode()

    return asyncio.run(scenario())


def test_answer(tmp_path: Path) -> None:
    body, generation = answered(tmp_path, {"messages": USER, "model": "scripted"})
    assert re.fullmatch(r"chatcmpl-[A-Za-z0-9]{32}", body["id"])
    assert body["object"] == "chat.completion"
    assert isinstance(body["created"], int)
    assert body["model"] == "scripted"
    [choice] = body["choices"]
    assert choice["index"] == 0
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "Hello there."
    assert choice["finish_reason"] == "stop"
    count = len(generation.prompt)
    assert body["usage"] == {
        "prompt_tokens": count,
        "completion_tokens": 4,
        "total_tokens": count + 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    timings = body["timings"]
    assert timings["prompt_n"] + timings["cache_n"] == count
    assert timings["predicted_n"] == 4
    assert set(timings) == {
        *("cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"),
        *("predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"),
    }


def test_model_name_of_the_answer_is_the_served_one(tmp_path: Path) -> None:
    body, _ = answered(tmp_path, {"messages": USER, "model": "gpt-4o"}, name="served")
    assert body["model"] == "served"


def test_unknown_model(tmp_path: Path) -> None:
    response, _ = ask(tmp_path, {"messages": USER, "model": "other"}, settings={"any_model": "false"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


def test_prompt_is_the_rendered_conversation(tmp_path: Path) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": "Yes", "refusal": None, "annotations": [], "audio": None},
        {"role": "user", "content": "More"},
    ]
    assert prompt_text(tmp_path, {"messages": messages}) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne\ntwo<|im_end|>\n"
        "<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"
    )


def test_start_token_stands_once(tmp_path: Path) -> None:
    """The template writes BOS and the vocabulary adds it."""
    text = prompt_text(tmp_path, {"messages": USER}, architecture="gemma3")
    assert text == "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"n_predict": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6, "n_predict": 7}, 7),
        ({"max_tokens": -1}, 99),
        ({"max_tokens": None, "max_completion_tokens": None}, 99),
        ({}, 99),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": 300.0}, 300),
    ],
)
def test_token_limit(tmp_path: Path, fields: dict[str, Any], expected: int) -> None:
    _, generation = answered(tmp_path, {"messages": USER, **fields}, max_tokens=99)
    assert generation.max_tokens == expected


def test_no_limit_without_the_operators(tmp_path: Path) -> None:
    _, generation = answered(tmp_path, {"messages": USER})
    assert generation.max_tokens is None


def test_zero_tokens_only_read_the_prompt(tmp_path: Path) -> None:
    body, _ = answered(tmp_path, {"messages": USER, "max_tokens": 0})
    assert body["choices"][0]["message"]["content"] == ""
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 0
    assert body["timings"]["predicted_per_token_ms"] == 0


def test_length(tmp_path: Path) -> None:
    body, _ = answered(tmp_path, {"messages": USER, "max_tokens": 2})
    assert body["choices"][0]["message"]["content"] == "Hello there"
    assert body["choices"][0]["finish_reason"] == "length"


def test_sampling_fields_arrive(tmp_path: Path) -> None:
    fields = {
        "temperature": 0.3,
        "top_k": 7,
        "top_p": 0.5,
        "min_p": 0.1,
        "typical_p": 0.9,
        "repeat_penalty": 1.1,
        "repeat_last_n": 12,
        "frequency_penalty": -0.5,
        "presence_penalty": 0.25,
        "seed": 42,
    }
    _, generation = answered(tmp_path, {"messages": USER, **fields})
    assert {name: getattr(generation.params, name) for name in fields} == fields


def test_nulls_are_absent(tmp_path: Path) -> None:
    names = ("temperature", "top_p", "seed", "stop", "n", "logit_bias", "tools", "response_format", "stream_options")
    more = ("stream", "max_tokens", "keep_alive", "chat_template_kwargs", "reasoning_effort", "cache_prompt", "user")
    plain, expected = answered(tmp_path, {"messages": USER})
    body, generation = answered(tmp_path, {"messages": USER, **dict.fromkeys((*names, *more))})
    assert generation == expected
    assert body["choices"] == plain["choices"]


def test_ignore_eos_bans_every_end_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await served.post(ROUTE, messages=USER, ignore_eos=True, logit_bias={"5": 2, "He": -1})
            async with served.host.registry.use(served.model) as runtime:
                vocab = runtime.tokenizer.vocab  # type: ignore[attr-defined]
                text = runtime.tokenizer.encode("He", add_special=False)  # type: ignore[attr-defined]
        bias = served.model.asked[0].params.logit_bias
        assert bias[:2] == ((5, 2.0), (text[0], -1.0))
        assert {token for token, value in bias if value == -math.inf} == vocab.end_of_generation
        assert len(vocab.end_of_generation) > 1

    asyncio.run(scenario())


def test_cache_prompt(tmp_path: Path) -> None:
    assert answered(tmp_path, {"messages": USER})[1].reuse
    assert not answered(tmp_path, {"messages": USER, "cache_prompt": False})[1].reuse


@pytest.mark.parametrize(
    ("stop", "expected"), [("x", ("x",)), (["a", "", "b"], ("a", "b")), ("", ()), ([], ()), (None, ())]
)
def test_stop_strings(tmp_path: Path, stop: Any, expected: tuple[str, ...]) -> None:
    assert answered(tmp_path, {"messages": USER, "stop": stop})[1].stops == expected


@pytest.mark.parametrize("stop", [3, True, {"a": 1}, [1], [["a"]], ["a", None], ["x"] * 65, ["x" * 1025]])
def test_stop_refused(tmp_path: Path, stop: Any) -> None:
    assert refused(tmp_path, {"messages": USER, "stop": stop})["param"] == "stop"


def test_stop_text_is_not_sent(tmp_path: Path) -> None:
    scripts = {"Hi": Script((b"one ", b"tw", b"o O", b" P ", b"Q rest"))}
    body, _ = answered(tmp_path, {"messages": USER, "stop": ["O P Q"]}, scripts=scripts)
    assert body["choices"][0]["message"]["content"] == "one two "
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 5


def test_several_answers_share_the_prompt(tmp_path: Path) -> None:
    async def scenario() -> tuple[dict[str, Any], list[Generation]]:
        async with serving(tmp_path) as served:
            response = await served.post(ROUTE, messages=USER, n=3, seed=2**32 - 2)
            assert response.status_code == 200, response.text
            return response.json(), served.model.asked

    body, asked = asyncio.run(scenario())
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert all(choice["message"]["content"] == "Hello there." for choice in body["choices"])
    count = len(asked[0].prompt)
    assert body["usage"]["prompt_tokens"] == count
    assert body["usage"]["completion_tokens"] == 12
    assert body["timings"]["predicted_n"] == 12
    assert [generation.prompt for generation in asked] == [asked[0].prompt] * 3
    assert [generation.params.seed for generation in asked] == [2**32 - 2, 2**32 - 1, 0]
    assert asked[0].follows is None
    assert asked[1].follows == asked[2].follows is not None


def test_copies_without_a_seed_draw_their_own(tmp_path: Path) -> None:
    _, model = ask(tmp_path, {"messages": USER, "n": 2})
    assert [generation.params.seed for generation in model.asked] == [None, None]


@pytest.mark.parametrize("field", ["n", "n_cmpl"])
@pytest.mark.parametrize("count", [0, -1, 5, 1.5, "2", True])
def test_count_of_answers_refused(tmp_path: Path, field: str, count: Any) -> None:
    error = refused(tmp_path, {"messages": USER, field: count}, slots=4)
    assert "n" in error["message"]
    assert error["param"] in ("n", field)


@pytest.mark.parametrize("messages", [None, [], "Hi", {"role": "user"}, 3])
def test_messages_required(tmp_path: Path, messages: Any) -> None:
    assert refused(tmp_path, {"messages": messages})["param"] == "messages"
    assert refused(tmp_path, {})["message"] == "'messages' is required"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("Hi", "messages[1]"),
        ({"content": "Hi"}, "messages[1].role"),
        ({"role": "user"}, "messages[1].content"),
        ({"role": "robot", "content": "Hi"}, "messages[1].role"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
            "messages[1].content[0].type",
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "messages[1].content[0].type"),
    ],
)
def test_bad_message_is_named(tmp_path: Path, message: Any, param: str) -> None:
    assert refused(tmp_path, {"messages": [*USER, message]})["param"] == param


def test_template_refuses_in_its_own_words(tmp_path: Path) -> None:
    metadata = {"tokenizer.chat_template": "{{ raise_exception('roles must alternate') }}"}
    assert "roles must alternate" in refused(tmp_path, {"messages": USER}, metadata=metadata)["message"]


def test_file_without_template(tmp_path: Path) -> None:
    error = refused(tmp_path, {"messages": USER}, metadata={"tokenizer.chat_template": None})
    assert "/v1/completions" in error["message"]
    assert "raw" in error["message"]


def test_prompt_over_the_context(tmp_path: Path) -> None:
    """Refused before it queues, with both counts; a prompt one token shorter is answered."""

    async def scenario() -> None:
        async with serving(tmp_path, context=40) as served:
            statuses = {}
            for length in range(1, 40):
                response = await served.post(ROUTE, messages=[{"role": "user", "content": "1" * length}], max_tokens=1)
                statuses[length] = response
            fitting = [length for length, response in statuses.items() if response.status_code == 200]
            longest = fitting[-1]
            assert fitting == list(range(1, longest + 1))
            assert statuses[longest].json()["usage"]["prompt_tokens"] == 39
            over = statuses[longest + 1]
            assert over.status_code == 400
            error = over.json()["error"]
            assert error["type"] == error["code"] == "exceed_context_size_error"
            assert (error["n_prompt_tokens"], error["n_ctx"]) == (40, 40)
            assert len(served.model.asked) == longest
            assert (await served.post(ROUTE, messages=USER)).status_code == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "switch", "effort"),
    [
        ({}, "<think></think>", ""),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "", ""),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "<think></think>", ""),
        ({"reasoning_effort": "none"}, "<think></think>", ""),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, "<think></think>", ""),
        ({"reasoning_effort": "high"}, "", "high"),
        ({"reasoning": {"effort": "low", "summary": "auto"}, "reasoning_effort": "high"}, "", "low"),
        ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, "<think></think>", "high"),
    ],
)
def test_thinking_is_off_unless_asked(tmp_path: Path, fields: dict[str, Any], switch: str, effort: str) -> None:
    text = prompt_text(tmp_path, {"messages": USER, **fields}, metadata={"tokenizer.chat_template": THINKING})
    assert text.endswith("<|im_start|>assistant\n" + switch + effort)


def test_effort_on_a_template_without_the_switch(tmp_path: Path) -> None:
    text = prompt_text(tmp_path, {"messages": USER, "reasoning_effort": "high"})
    assert text.endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"chat_template_kwargs": {"enable_thinking": "true"}}, "enable_thinking"),
        ({"chat_template_kwargs": {"messages": []}}, "messages"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
    ],
)
def test_bad_template_variables(tmp_path: Path, fields: dict[str, Any], word: str) -> None:
    assert word in refused(tmp_path, {"messages": USER, **fields})["message"]


PREFILL = [*USER, {"role": "assistant", "content": "Once upon"}]


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        ({}, "<|im_start|>assistant\nOnce upon"),
        ({"continue_final_message": True, "add_generation_prompt": False}, "<|im_start|>assistant\nOnce upon"),
        ({"continue_final_message": "content"}, "<|im_start|>assistant\nOnce upon"),
        ({"continue_final_message": False}, "Once upon<|im_end|>\n<|im_start|>assistant\n"),
        ({"continue_final_message": False, "add_generation_prompt": False}, "Once upon<|im_end|>\n"),
    ],
)
def test_last_assistant_message(tmp_path: Path, fields: dict[str, Any], ending: str) -> None:
    assert prompt_text(tmp_path, {"messages": PREFILL, **fields}).endswith(ending)


def test_no_generation_prompt(tmp_path: Path) -> None:
    assert prompt_text(tmp_path, {"messages": USER, "add_generation_prompt": False}).endswith("Hi<|im_end|>\n")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": PREFILL, "continue_final_message": True, "add_generation_prompt": True},
        {"messages": USER, "continue_final_message": True},
        {"messages": [*PREFILL, {"role": "assistant", "content": "b"}]},
        {"messages": PREFILL, "continue_final_message": "reasoning_content"},
        {"messages": PREFILL, "continue_final_message": 3},
        {"messages": [*USER, {"role": "assistant", "content": "x", "reasoning_content": "because"}]},  # knows none
    ],
)
def test_continuation_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    refused(tmp_path, body)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"messages": [', b"\xff", b'{"messages": NaN}'])
def test_bad_body(tmp_path: Path, body: bytes) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            response = await served.client.post(ROUTE, content=body)
            assert response.status_code == 400
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}
            assert (await served.post(ROUTE, messages=USER)).status_code == 200

    asyncio.run(scenario())


def test_answer_of_a_long_request_is_the_same(tmp_path: Path) -> None:
    """A long body is worked on by another thread."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            short = await served.post(ROUTE, messages=USER)
            long = await served.post(ROUTE, messages=USER, metadata={"filler": "x" * 20_000})
            refused = await served.post(ROUTE, messages=[{"role": "user", "content": "x" * 20_000}])
        assert long.json()["choices"] == short.json()["choices"]
        assert served.model.asked[0] == served.model.asked[1]
        assert refused.json()["error"]["code"] == "exceed_context_size_error"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ROUTE, {"messages": [{"role": "user", "content": "x" * 3_000_000}]}),
        ("/v1/completions", {"prompt": ["short", "x" * 3_000_000]}),
        ("/api/chat", {"model": "scripted", "messages": [{"role": "user", "content": "x" * 3_000_000}]}),
        ("/api/generate", {"model": "scripted", "prompt": "x" * 3_000_000}),
        ("/api/generate", {"model": "scripted", "prompt": "x" * 3_000_000, "raw": True}),
    ],
)
def test_hopeless_prompt_is_not_tokenized(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            async with served.host.registry.use(served.model) as runtime:
                tokenizer = runtime.tokenizer  # type: ignore[attr-defined]
            longest = 0
            encode = tokenizer.encode

            def watched(text: str, **how: bool) -> list[int]:
                nonlocal longest
                longest = max(longest, len(text))
                return encode(text, **how)

            tokenizer.encode = watched
            response = await served.post(path, **body)
            assert response.status_code == 400
            assert "at least" in response.text
            assert longest < 100
            if path.startswith("/v1"):
                error = response.json()["error"]
                assert error["code"] == "exceed_context_size_error"
                assert error["n_prompt_tokens"] >= error["n_ctx"] == 256

    asyncio.run(scenario())


def test_long_text_that_may_fit_is_tokenized(tmp_path: Path) -> None:
    """Each token may stand for as many characters as the longest one has."""
    _, model = ask(tmp_path, {"messages": [{"role": "user", "content": "ello world" * 7000}]}, context=200_000)
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "bias", [{"x" * 1025: 1}, [["x" * 1025, 1]], [[5, 1]] * 4097, {str(token): 1 for token in range(4097)}]
)
def test_excessive_biases(tmp_path: Path, bias: Any) -> None:
    assert refused(tmp_path, {"messages": USER, "logit_bias": bias})["param"] == "logit_bias"


def test_text_leaves_as_ascii_json(tmp_path: Path) -> None:
    text = "\u2028\u0085\U0001f600"
    response, _ = ask(tmp_path, {"messages": USER}, scripts={"Hi": Script((text.encode(),))})
    assert response.content.isascii()
    assert json.loads(response.content)["choices"][0]["message"]["content"] == text


def test_error_of_the_model_reaches_the_caller(tmp_path: Path) -> None:
    scripts = {"Hi": Script((b"a",), error=BadRequest("no further"))}
    response, _ = ask(tmp_path, {"messages": USER}, scripts=scripts)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "no further"
