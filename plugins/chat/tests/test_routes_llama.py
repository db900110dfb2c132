"""llama-server's own routes: tokens, properties."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from golem_host.testing.fakes import FakePlugin, plugin_set
from golem_host.testing.inprocess import running, settings_of
from golem_host.testing.tiny import tiny_gguf
from golem_host_chat import plugin
from golem_host_chat.model import ChatModel
from golem_host_chat.routes import ROUTES, context_limit
from scripted_chat import Served, serving

USER = [{"role": "user", "content": "Hi"}]


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **options) as served:
            await scenario(served)

    asyncio.run(whole())


def test_tokens_and_back(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        text = "Hello there, 你好 👋\n"
        plain = (await served.post("/tokenize", content=text)).json()
        assert list(plain) == ["tokens"] and plain["tokens"]
        assert (await served.post("/detokenize", tokens=plain["tokens"])).json() == {"content": text}
        whole = (await served.post("/tokenize", content=text, add_special=True)).json()["tokens"]
        assert len(whole) > len(plain["tokens"]) and whole[-len(plain["tokens"]) :] == plain["tokens"]
        mixed = await served.post("/tokenize", content=[whole[0], "Hello", 5, " there"], add_special=True)
        parts = [(await served.post("/tokenize", content=part)).json()["tokens"] for part in ("Hello", " there")]
        assert mixed.json()["tokens"] == [whole[0], *parts[0], 5, *parts[1]]

    run(tmp_path, scenario, architecture="gemma3")


def test_special_tokens_are_parsed_unless_told_otherwise(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        special = (await served.post("/tokenize", content="<|im_end|>")).json()["tokens"]
        assert len(special) == 1
        assert len((await served.post("/tokenize", content="<|im_end|>", parse_special=False)).json()["tokens"]) > 1
        assert (await served.post("/detokenize", tokens=special)).json() == {"content": "<|im_end|>"}

    run(tmp_path, scenario, architecture="qwen3")


def test_pieces_are_text_or_bytes(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        text = "a👋"
        tokens = (await served.post("/tokenize", content=text, with_pieces=True)).json()["tokens"]
        pieces = [token["piece"] for token in tokens]
        assert pieces[0] == "a" and all(isinstance(piece, str | list) for piece in pieces)
        joined = b"".join(bytes(piece) if isinstance(piece, list) else piece.encode() for piece in pieces)
        assert joined == text.encode() and any(isinstance(piece, list) for piece in pieces)
        assert [token["id"] for token in tokens] == (await served.post("/tokenize", content=text)).json()["tokens"]

    run(tmp_path, scenario, architecture="qwen3")


def test_absent_content_is_nothing(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body in ({}, {"content": None}, {"content": ""}, {"content": []}):
            assert (await served.post("/tokenize", **body)).json() == {"tokens": []}
        for body in ({}, {"tokens": None}, {"tokens": []}):
            assert (await served.post("/detokenize", **body)).json() == {"content": ""}

    run(tmp_path, scenario)


def test_refusals_name_the_field(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(context_limit, "MAX_CHARACTERS", 100)

    async def scenario(served: Served) -> None:
        bad: list[tuple[str, dict[str, Any], str]] = [
            ("/tokenize", {"content": 5}, "content"),
            ("/tokenize", {"content": {"text": "a"}}, "content"),
            ("/tokenize", {"content": ["a", True]}, "content"),
            ("/tokenize", {"content": ["a", 1.5]}, "content"),
            ("/tokenize", {"content": [10**9]}, "content"),
            ("/tokenize", {"content": ["x" * 60, "y" * 60]}, "120 characters"),
            ("/tokenize", {"content": "a", "add_special": "yes"}, "add_special"),
            ("/tokenize", {"content": "a", "with_pieces": 1}, "with_pieces"),
            ("/detokenize", {"tokens": "1"}, "tokens"),
            ("/detokenize", {"tokens": [-1]}, "tokens"),
            ("/detokenize", {"tokens": [None]}, "tokens"),
            ("/detokenize", {"tokens": [10**9]}, "tokens"),
        ]
        for path, body, words in bad:
            reply = await served.post(path, **body)
            assert reply.status_code == 400, (path, body)
            error = reply.json()["error"]
            assert error["code"] == 400 and error["type"] == "invalid_request_error" and words in error["message"]
        assert (await served.post("/tokenize", content="a")).status_code == 200

    run(tmp_path, scenario)


def test_a_text_too_long_for_the_event_loop_comes_back_whole(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        text = "word " * 3000
        tokens = (await served.post("/tokenize", content=text)).json()["tokens"]
        assert (await served.post("/detokenize", tokens=tokens)).json() == {"content": text}

    run(tmp_path, scenario, architecture="qwen3")


def test_properties_of_a_loaded_model(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        told = (await served.client.get("/props")).json()
        assert told["total_slots"] == 3 and told["model_alias"] == "scripted"
        assert told["default_generation_settings"]["n_ctx"] == 128
        params = told["default_generation_settings"]["params"]
        assert params["temperature"] == 0.8 and params["n_predict"] == params["max_tokens"] == 9
        assert params["samplers"][0] == "penalties" and params["seed"] == 0xFFFFFFFF
        assert told["model_path"] == str(served.model.path.resolve())
        assert "<|im_start|>" in told["chat_template"] and told["chat_template_caps"]["supports_system_role"]
        assert told["eos_token"] == "<|endoftext|>" and told["is_sleeping"] is False
        assert (await served.client.get("/props?model=scripted")).json() == told
        assert (await served.client.head("/props")).status_code == 200

    run(tmp_path, scenario, architecture="qwen3", slots=3, context=128, max_tokens=9)


def test_properties_cannot_be_changed(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        reply = await served.post("/props", temperature=1)
        assert reply.status_code == 501 and reply.headers["x-should-retry"] == "false"
        assert reply.json()["error"]["type"] == "not_supported_error"

    run(tmp_path, scenario)


def test_properties_of_a_model_out_of_memory_are_the_same_and_load_nothing(tmp_path: Path) -> None:
    async def whole() -> None:
        models = [ChatModel(tiny_gguf(tmp_path / f"{name}.gguf", "qwen3"), name=name) for name in ("one", "two")]
        settings = settings_of(tmp_path, {"context": "512", "parallel": "2"}, plugin.golem_settings())
        async with running(settings, plugin_set(chat=FakePlugin(models, ROUTES))) as (host, client):
            loaded = (await client.get("/props?model=one")).json()
            await host.registry.unload(models[0])
            told = (await client.get("/props?model=one")).json()
            assert host.registry.loaded(models[0]) is None and told == {**loaded, "is_sleeping": True}
            unclear = await client.get("/props")
            assert unclear.status_code == 400 and "one, two" in unclear.json()["error"]["message"]
            assert (await client.get("/props?model=three")).status_code == 404

    asyncio.run(whole())


def test_conversations_answer_without_v1(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answers = [
            (await served.post(path, messages=USER)).json() for path in ("/chat/completions", "/v1/chat/completions")
        ]
        assert [answer["choices"] for answer in answers] == [answers[0]["choices"]] * 2

    run(tmp_path, scenario)


def test_a_template_is_applied_as_for_an_answer(tmp_path: Path) -> None:
    """The prompt has the tokens that the lane is given for the same body, which are those that are counted."""
    bodies: list[dict[str, Any]] = [
        {"messages": USER},
        {"messages": [{"role": "system", "content": "Be brief."}, *USER]},
        {"messages": USER, "add_generation_prompt": False},
        {"messages": [*USER, {"role": "assistant", "content": "Well"}]},
    ]

    async def scenario(served: Served) -> None:
        prompts = []
        for body in bodies:
            prompt = (await served.post("/apply-template", **body)).json()["prompt"]
            tokens = (await served.post("/tokenize", content=prompt, add_special=True)).json()["tokens"]
            assert (await served.post("/v1/chat/completions", **body)).status_code == 200
            assert served.model.asked[-1].prompt == tokens
            for path in ("/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"):
                counted = (await served.post(path, **body)).json()
                assert counted == {"input_tokens": len(tokens), "object": "response.input_tokens"}
            prompts.append(prompt)
        assert len(set(prompts)) == len(prompts)

    for architecture in ("qwen3", "gemma3"):
        run(tmp_path, scenario, architecture=architecture)


def test_a_conversation_that_does_not_fit_is_counted(tmp_path: Path, monkeypatch: Any) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "word " * 2000}]}

    async def scenario(served: Served) -> None:
        refused = (await served.post("/v1/chat/completions", **body)).json()["error"]
        counted = (await served.post("/v1/chat/completions/input_tokens", **body)).json()
        assert counted["input_tokens"] == refused["n_prompt_tokens"] > served.model.context
        monkeypatch.setattr(context_limit, "MAX_CHARACTERS", 100)
        reply = await served.post("/v1/chat/completions/input_tokens", **body)
        assert reply.status_code == 400 and reply.json()["error"]["param"] == "messages"

    run(tmp_path, scenario)


def test_what_cannot_be_answered_cannot_be_rendered(tmp_path: Path) -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": 5}]}, "content"),
        ({"messages": USER, "chat_template_kwargs": {"enable_thinking": "yes"}}, "enable_thinking"),
    ]

    async def scenario(served: Served) -> None:
        for path in ("/apply-template", "/v1/chat/completions/input_tokens"):
            for body, words in bad:
                reply = await served.post(path, **body)
                assert reply.status_code == 400 and words in reply.json()["error"]["message"], (path, body)

    run(tmp_path, scenario)
