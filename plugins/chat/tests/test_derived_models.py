"""Derived chat models: their layer under the request's fields on every API, and what cannot be a layer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from golem_host_chat.generation import Generation
from scripted_chat import Served, serving

USER = [{"role": "user", "content": "Hi"}]
TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}]
PIRATE: dict[str, Any] = {
    "model": "pirate",
    "from": "scripted",
    "system": "Arr",
    "messages": TURNS,
    "parameters": {"temperature": 0.25, "top_k": 7, "seed": 3, "num_predict": 5, "stop": ["END"], "repeat_last_n": -1},
}


def derived(folder: Path, use: Callable[[Served], Awaitable[None]], *bodies: dict[str, Any], **model: Any) -> None:
    """Serve `scripted` and what `bodies` make of it."""

    async def go() -> None:
        async with serving(folder, **model) as served:
            for body in bodies:
                answer = await served.post("/api/create", **body, stream=False)
                assert (answer.status_code, answer.text) == (200, '{"status":"success"}')
            await use(served)

    asyncio.run(go())


def text_of(served: Served, asked: Generation) -> str:
    from golem_host.text.tokenizer import tokenizer_from_gguf
    from golem_host.weights.gguf import open_gguf

    with open_gguf(served.model.path) as gguf:
        return tokenizer_from_gguf(gguf).decode(asked.prompt, special=True).decode()


async def asked(served: Served, path: str, **body: Any) -> Generation:
    answer = await served.post(path, **body)
    assert answer.status_code == 200, answer.text
    return served.model.asked[-1]


def test_the_layer_is_in_every_prompt_as_if_it_had_been_sent(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Arr"}
    other = {"role": "system", "content": "Meow"}
    whole = [system, *TURNS, *USER]
    cases: list[tuple[str, dict[str, Any], list[Any]]] = [
        ("/v1/chat/completions", {"messages": USER}, whole),
        ("/api/chat", {"messages": USER, "stream": False}, whole),
        ("/api/chat", {"messages": [other, *USER], "stream": False}, [other, *TURNS, *USER]),
        ("/api/generate", {"prompt": "Hi", "stream": False}, whole),
        ("/api/generate", {"prompt": "Hi", "system": "Meow", "stream": False}, [other, *TURNS, *USER]),
    ]

    async def use(served: Served) -> None:
        for path, body, messages in cases:
            found = await asked(served, path, model="Pirate:latest", **body)
            plain = await asked(served, "/v1/chat/completions", model="scripted", messages=messages)
            assert found.prompt == plain.prompt, (path, text_of(served, found))
        raw = await asked(served, "/api/generate", model="pirate", prompt="Hi", raw=True, stream=False)
        completion = await asked(served, "/v1/completions", model="scripted", prompt="Hi")
        assert raw.prompt == completion.prompt

    derived(tmp_path, use, PIRATE)


def test_an_exchange_that_goes_on_has_had_the_first_turns(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        first = (await served.post("/api/generate", model="pirate", prompt="Hi", stream=False)).json()
        again = await asked(
            served, "/api/generate", model="pirate", prompt="Hi", context=first["context"], stream=False
        )
        assert text_of(served, again).count("Who?") == 1

    derived(tmp_path, use, PIRATE)


def test_parameters_hold_where_the_request_says_nothing(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        for path, body in (
            ("/v1/chat/completions", {"messages": USER}),
            ("/v1/completions", {"prompt": "Hi"}),
            ("/api/chat", {"messages": USER, "stream": False}),
        ):
            found = await asked(served, path, model="pirate", **body)
            params = found.params
            assert (params.temperature, params.top_k, params.seed, params.top_p) == (0.25, 7, 3, 0.95)
            assert params.repeat_last_n == 256 and found.stops == ("END",) and found.max_tokens == 5
            own = {"temperature": 1.5, "stop": ["x"], "seed": 9}
            limits = {"options": {**own, "num_predict": 2}} if path.startswith("/api") else {**own, "max_tokens": 2}
            found = await asked(served, path, model="pirate", **body, **limits)
            params = found.params
            assert (params.temperature, params.top_k, params.seed) == (1.5, 7, 9)
            assert found.stops == ("x",) and found.max_tokens == 2
        base = await asked(served, "/v1/chat/completions", model="scripted", messages=USER)
        assert (base.params.top_k, base.stops, base.max_tokens) == (40, (), None)

    derived(tmp_path, use, PIRATE)


def test_num_ctx_bounds_prompt_and_answer(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        prompt = await asked(served, "/v1/chat/completions", model="small", messages=USER)
        assert prompt.max_tokens == 40 - len(prompt.prompt)
        long = [{"role": "user", "content": "word " * 50}]
        refused = await served.post("/v1/chat/completions", model="small", messages=long)
        assert refused.status_code == 400 and refused.json()["error"]["n_ctx"] == 40
        wider = await asked(served, "/api/chat", model="small", messages=long, options={"num_ctx": 200}, stream=False)
        assert len(wider.prompt) > 40
        never = await served.post("/api/chat", model="large", messages=USER)
        assert never.status_code == 400 and "option 'num_ctx' is 300" in never.json()["error"]

    derived(
        tmp_path, use,
        {"model": "small", "from": "scripted", "parameters": {"num_ctx": 40}},
        {"model": "large", "from": "scripted", "parameters": {"num_ctx": 300}},
    )  # fmt: skip


def test_one_derived_from_a_derived_model_lays_its_own_over_it(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        found = await asked(served, "/api/chat", model="parrot", messages=USER, stream=False)
        text = text_of(served, found)
        assert "Squawk" in text and "Arr" not in text and "Who?" in text
        assert (found.params.top_k, found.params.temperature) == (7, 1.0)
        shown = (await served.post("/api/show", model="parrot")).json()
        assert shown["details"]["parent_model"] == "pirate" and shown["system"] == "Squawk"
        # What it was made of is its own: the first may go.
        deleted = await served.client.request("DELETE", "/api/delete", json={"model": "pirate"})
        assert deleted.status_code == 200
        again = await asked(served, "/api/chat", model="parrot", messages=USER, stream=False)
        assert again.prompt == found.prompt
        assert (await served.post("/api/chat", model="pirate:other", messages=USER)).status_code == 404

    body = {"model": "parrot", "from": "pirate", "system": "Squawk", "parameters": {"temperature": 1.0}}

    async def go() -> None:
        async with serving(tmp_path, settings={"any-model": "false"}) as served:
            for each in (PIRATE, body):
                assert (await served.post("/api/create", **each)).status_code == 200
            await use(served)

    asyncio.run(go())


def test_show_tells_the_layer_and_its_modelfile(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        shown = (await served.post("/api/show", model="pirate")).json()
        assert (shown["system"], shown["messages"]) == ("Arr", TURNS)
        assert 'stop                           "END"' in shown["parameters"].splitlines()
        assert shown["modelfile"].splitlines()[0] == "FROM scripted"
        assert 'SYSTEM """Arr"""' in shown["modelfile"] and 'MESSAGE assistant """Me."""' in shown["modelfile"]
        created = await served.post("/api/create", model="again", modelfile=shown["modelfile"], stream=False)
        assert created.json() == {"status": "success"}
        again = (await served.post("/api/show", model="again")).json()
        same = ("system", "messages", "parameters", "template", "modelfile")
        assert [again[member] for member in same] == [shown[member] for member in same]
        for body in ({"modelfile": "FROM scripted\nPARAMETER tempo 1"}, {"modelfile": "FROM scripted", "system": "x"}):
            assert (await served.post("/api/create", model="no", **body)).status_code == 400

    derived(tmp_path, use, PIRATE)


def test_a_template_of_its_own(tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    template += "{% if enable_thinking is defined and not enable_thinking %}<no>{% endif %}"

    async def use(served: Served) -> None:
        found = await asked(served, "/api/chat", model="plain", messages=USER, stream=False)
        assert text_of(served, found).removesuffix("<no>").endswith("<system>Arr<user>Hi")
        base = await asked(served, "/api/chat", model="scripted", messages=USER, stream=False)
        assert "<user>" not in text_of(served, base)
        shown = [(await served.post("/api/show", model=name)).json() for name in ("plain", "scripted")]
        assert [each["capabilities"] for each in shown] == [["completion", "thinking"], ["completion"]]

    derived(tmp_path, use, {"model": "plain", "from": "scripted", "template": template, "system": "Arr"})


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"template": "{{ .Prompt }}"}, "this is a Go template"),
        ({"template": "{% for %}"}, "does not compile"),
        ({"parameters": {"temprature": 1}}, "unknown option 'temprature'"),
        ({"parameters": {"temperature": "hot"}}, "temperature"),
        ({"parameters": {"repeat_penalty": 0}}, "repeat_penalty"),
        ({"parameters": {"num_ctx": -1}}, "num_ctx"),
        ({"parameters": {"stop": [1]}}, "stop"),
        ({"parameters": []}, "parameters"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
        ({"messages": "x"}, "messages"),
    ],
)
def test_what_cannot_be_honoured_is_refused_and_not_kept(tmp_path: Path, layer: dict[str, Any], words: str) -> None:
    async def use(served: Served) -> None:
        answer = await served.post("/api/create", model="x", **{"from": "scripted"}, **layer)
        assert answer.status_code == 400 and words in answer.json()["error"], answer.text
        assert not list(served.host.catalogue.folder.glob("manifests/*"))
        assert (await served.post("/api/chat", model="scripted", messages=USER)).status_code == 200

    derived(tmp_path, use)


def test_a_file_without_a_template_has_nothing_that_could_carry_a_system_text(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        answer = await served.post("/api/create", model="x", **{"from": "scripted"}, system="Arr")
        assert answer.status_code == 400 and "no chat template" in answer.json()["error"]

    derived(tmp_path, use, metadata={"tokenizer.chat_template": None})
