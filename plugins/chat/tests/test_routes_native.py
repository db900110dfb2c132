"""llama-server's own `/completion` and `/infill`, and what `/v1/completions` takes of the same: suffix, best_of."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from golem_host_chat.generation import Extras
from golem_host_chat.likelihoods import Probabilities
from scripted_chat import Script, Served, serving

PATH = "/completion"
MEMBERS = [
    *("index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated"),
    *("generation_settings", "prompt", "has_new_line", "truncated", "stop_type", "stopping_word", "tokens_cached"),
    "timings",
]
SCRIPTS = {
    "lines": Script((b"a", b"\xc3", b"\xa9\n", b"c")),
    "stopped": Script((b"one O", b" P", b" Q two")),
    "endless": Script((b"x",), endless=True),
}


def run(folder: Path, scenario: Any, **options: Any) -> None:
    async def whole() -> None:
        async with serving(folder, **{"scripts": SCRIPTS, **options}) as served:
            await scenario(served)

    asyncio.run(whole())


async def streamed(served: Served, path: str = PATH, **body: Any) -> list[Any]:
    answer = await served.post(path, **body, stream=True)
    assert answer.status_code == 200, answer.text
    assert answer.text.endswith("\n\n") and "[DONE]" not in answer.text
    return [json.loads(event.removeprefix("data: ")) for event in answer.text[:-2].split("\n\n")]


@pytest.mark.parametrize("path", [PATH, "/completions"])
def test_a_whole_answer(tmp_path: Path, path: str) -> None:
    async def scenario(served: Served) -> None:
        answer = (await served.post(path, prompt="Say lines", temperature=0.5, seed=7, stop=["zzz"])).json()
        assert list(answer) == MEMBERS
        asked = served.model.asked[-1]
        assert (answer["content"], answer["tokens"], answer["stop"]) == ("aé\nc", [], True)
        assert (answer["tokens_predicted"], answer["tokens_evaluated"]) == (5, len(asked.prompt))
        assert (answer["stop_type"], answer["stopping_word"], answer["truncated"]) == ("eos", "", False)
        assert (answer["has_new_line"], answer["model"], answer["index"]) == (True, "scripted", 0)
        assert answer["tokens_cached"] == len(asked.prompt) + 4
        assert answer["prompt"].endswith("Say lines")
        settings = answer["generation_settings"]
        assert (settings["temperature"], settings["seed"], settings["stop"], settings["n_predict"]) == (
            0.5,
            7,
            ["zzz"],
            -1,
        )
        assert (settings["n_probs"], settings["samplers"][0], settings["stream"]) == (0, "penalties", False)

    run(tmp_path, scenario)


def test_a_stream_joins_to_the_whole_answer(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body in (
            {"prompt": "Say lines"},
            {"prompt": "stopped", "stop": ["O P Q"]},
            {"prompt": "Hi", "n_predict": 2},
        ):
            whole = (await served.post(PATH, **body, return_tokens=True)).json()
            *pieces, final = await streamed(served, **body)
            assert list(final) == MEMBERS and (final["content"], final["tokens"]) == ("", [])
            for piece in pieces:
                assert list(piece) == [
                    *("index", "content", "tokens", "stop", "id_slot", "tokens_predicted", "tokens_evaluated")
                ]
                assert (piece["stop"], piece["id_slot"]) == (False, whole["id_slot"])
            assert "".join(piece["content"] for piece in pieces) == whole["content"]
            assert [token for piece in pieces for token in piece["tokens"]] == whole["tokens"]
            assert pieces[-1]["tokens_predicted"] == final["tokens_predicted"] == whole["tokens_predicted"]
            same = [name for name in MEMBERS if name not in ("content", "tokens", "generation_settings")]
            assert {name: final[name] for name in same} == {name: whole[name] for name in same}

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("body", "kind", "word"),
    [
        ({"prompt": "stopped", "stop": ["O P Q"]}, "word", "O P Q"),
        ({"prompt": "Hi", "n_predict": 1}, "limit", ""),
        ({"prompt": "Hi", "n_predict": 0}, "limit", ""),
        ({"prompt": "Hi"}, "eos", ""),
    ],
)
def test_why_it_stopped(tmp_path: Path, body: dict[str, Any], kind: str, word: str) -> None:
    async def scenario(served: Served) -> None:
        answer = (await served.post(PATH, **body)).json()
        assert (answer["stop_type"], answer["stopping_word"]) == (kind, word)

    run(tmp_path, scenario)


def test_several_prompts_and_copies(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answers = (await served.post(PATH, prompt=["lines", "Hi"], n=2)).json()
        assert [answer["index"] for answer in answers] == [0, 1, 2, 3]
        assert [answer["content"] for answer in answers] == ["aé\nc"] * 2 + ["Hello there."] * 2
        assert [answer["prompt"][-2:] for answer in answers] == ["es", "es", "Hi", "Hi"]
        events = await streamed(served, prompt=["lines", "Hi"])
        for index, text in enumerate(["aé\nc", "Hello there."]):
            own = [event for event in events if event["index"] == index]
            assert "".join(event["content"] for event in own) == text
            assert [event["stop"] for event in own] == [False] * (len(own) - 1) + [True]

    run(tmp_path, scenario)


def test_probabilities(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        whole = (await served.post(PATH, prompt="Hi", n_probs=2)).json()
        assert list(whole) == [*MEMBERS, "completion_probabilities"]
        assert served.model.asked[-1].extras.probs == Probabilities(2)
        entries = whole["completion_probabilities"]
        assert [entry["token"] for entry in entries] == ["Hello", " there", ".", ""]
        assert list(entries[0]) == ["id", "token", "bytes", "logprob", "top_logprobs"]
        events = await streamed(served, prompt="Hi", n_probs=2)
        told = [entry for event in events for entry in event.get("completion_probabilities", [])]
        assert told == entries and "completion_probabilities" not in events[-1]
        after = (await served.post(PATH, prompt="Hi", n_probs=1, post_sampling_probs=True)).json()
        assert list(after["completion_probabilities"][0])[-2:] == ["prob", "top_probs"]

    run(tmp_path, scenario)


def test_progress_and_timings(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        events = await streamed(served, prompt="Hi", return_progress=True, timings_per_token=True)
        reports = [event["prompt_progress"] for event in events if "prompt_progress" in event]
        assert [report["processed"] for report in reports] == [0, events[-1]["tokens_evaluated"]]
        assert all("timings" in event for event in events if event["content"])
        assert served.model.asked[-1].extras == Extras(progress=True, timed=True, ids=True)

    run(tmp_path, scenario)


def test_constraints(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for body, grammar in (({"grammar": 'root ::= "a"'}, 'root ::= "a"'), ({"json_schema": {"type": "object"}}, "")):
            answer = await served.post(PATH, prompt="Hi", **body)
            assert answer.json()["generation_settings"]["grammar"] == grammar
            assert served.model.asked[-1].constraint is not None
        answer = await served.post(PATH, prompt="Hi", grammar="root ::= (")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)

    run(tmp_path, scenario)


def test_chosen_members(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        paths = ["content", "generation_settings/temperature", "nothing", "content/deeper", "timings/prompt_n"]
        answer = (await served.post(PATH, prompt="Hi", temperature=0.25, response_fields=paths)).json()
        assert list(answer) == ["content", "generation_settings/temperature", "timings/prompt_n"]
        assert answer["generation_settings/temperature"] == 0.25
        events = await streamed(served, prompt="Hi", response_fields=["stop_type"])
        assert events[-1] == {"stop_type": "eos"} and "tokens_evaluated" in events[0]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "'prompt' is required"),
        ({"prompt": "Hi", "response_fields": "content"}, "Field 'response_fields': expected an array, got a string"),
        ({"prompt": "Hi", "response_fields": [1]}, "Field 'response_fields': expected an array of strings"),
        ({"prompt": "Hi", "return_tokens": 1}, "Field 'return_tokens': expected a boolean, got a number"),
        ({"prompt": "Hi", "lora": [{"id": 0, "scale": 1}]}, "'lora' is not served: there are no adapters"),
        (
            {"prompt": "Hi", "n": 5},
            "n is 5: model 'scripted' draws at most 4 answers at once, one in each slot (--parallel)",
        ),
    ],
)
def test_refusals(tmp_path: Path, body: dict[str, Any], message: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post(PATH, **body)
        assert answer.status_code == 400
        assert answer.json()["error"] == {"code": 400, "message": message, "type": "invalid_request_error"}

    run(tmp_path, scenario)


def test_a_prompt_that_does_not_fit(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post(PATH, prompt=[5] * 300)
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "exceed_context_size_error")
        assert (error["n_prompt_tokens"], error["n_ctx"]) == (300, 256)

    run(tmp_path, scenario)


FIM = {
    "tokenizer.ggml.fim_pre_token_id": 10,
    "tokenizer.ggml.fim_suf_token_id": 11,
    "tokenizer.ggml.fim_mid_token_id": 12,
}
FILES = {"tokenizer.ggml.fim_rep_token_id": 13, "tokenizer.ggml.fim_sep_token_id": 14}


async def ids(served: Served, text: str, *, special: bool = False) -> list[int]:
    return (await served.post("/tokenize", content=text, parse_special=special)).json()["tokens"]


@pytest.mark.parametrize("files", [False, True])
def test_infill(tmp_path: Path, files: bool) -> None:
    async def scenario(served: Served) -> None:
        body = {"input_prefix": "def f(", "input_suffix": "return", "prompt": "x", "input_extra": [{"text": "a = 1"}]}
        answer = await served.post("/infill", **body, n_predict=3)
        assert answer.status_code == 200, answer.text
        assert answer.json()["content"] == "Hello there."
        prefix, suffix, prompt, text = [await ids(served, each) for each in ("def f(", "return", "x", "a = 1")]
        asked = served.model.asked[-1].prompt
        opening = (await served.post("/tokenize", content="", add_special=True)).json()["tokens"]
        core = [*opening, 10, *prefix, *prompt, 11, *suffix, 12]
        if files:
            names = [await ids(served, each) for each in ("myproject\n", "tmp\n", "filename\n")]
            extra = [13, *names[0], 14, *names[1], *text, 14, *names[2]]
        else:
            extra = [*await ids(served, "\n\n--- snippet ---\n\n"), *text]
        assert asked == [*extra, *core]
        await served.post("/infill", input_prefix=[5, "def"], input_suffix="")
        assert served.model.asked[-1].prompt[-len(core) :][-4:] != [] and served.model.asked[-1].prompt[-1] == 12
        events = await streamed(served, "/infill", **body)
        assert "".join(event["content"] for event in events) == "Hello there."

    run(tmp_path, scenario, metadata=FIM | (FILES if files else {}), context=1024)


def test_infill_leaves_out_what_is_far_away(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        prefix = list(range(20, 60)) * 10
        suffix = list(range(60, 100)) * 10
        answer = await served.post(
            "/infill", input_prefix=prefix, input_suffix=suffix, input_extra=[{"text": "a" * 999}]
        )
        assert answer.status_code == 200, answer.text
        asked = served.model.asked[-1].prompt
        begin, middle = asked.index(10), asked.index(11)
        assert asked[begin + 1 : middle] == prefix[-96:]
        assert asked[middle + 1 :] == [*suffix[:30], 12]
        assert len(asked) < 256

    run(tmp_path, scenario, metadata=FIM, context=256)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"input_suffix": "b"}, "Field 'input_prefix': \"input_prefix\" is required"),
        ({"input_prefix": "a"}, "Field 'input_suffix': \"input_suffix\" is required"),
        ({"input_prefix": {}, "input_suffix": "b"}, "Field 'input_prefix': expected a string, got an object"),
        (
            {"input_prefix": "a", "input_suffix": "b", "prompt": ["x"]},
            "Field 'prompt': expected a string, got an array",
        ),
        (
            {"input_prefix": "a", "input_suffix": "b", "input_extra": {}},
            "Field 'input_extra': expected an array, got an object",
        ),
        (
            {"input_prefix": "a", "input_suffix": "b", "input_extra": [3]},
            "Field 'input_extra': \"input_extra\" must be",
        ),
        (
            {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "ok"}]},
            "Field 'input_extra[0].text': ",
        ),
        (
            {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": 1, "text": "a"}]},
            "Field 'input_extra[0].filename': expected a string, got a number",
        ),
    ],
)
def test_infill_refusals(tmp_path: Path, body: dict[str, Any], message: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/infill", **body)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(message)

    run(tmp_path, scenario, metadata=FIM)


def test_a_model_without_the_tokens(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/infill", input_prefix="a", input_suffix="b")
        assert (answer.status_code, answer.json()["error"]["type"]) == (501, "not_supported_error")
        assert answer.json()["error"]["message"].startswith("Infill is not supported by this model: ")
        assert answer.headers["x-should-retry"] == "false"
        answer = await served.post("/v1/completions", prompt="a", suffix="b")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "suffix")
        assert "model 'scripted' does not support insert" in answer.json()["error"]["message"]

    run(tmp_path, scenario)


def test_suffix_and_best_of(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.post("/v1/completions", prompt="def f(", suffix="return", echo=True)
        assert answer.json()["choices"][0]["text"] == "def f(Hello there."
        opening = (await served.post("/tokenize", content="", add_special=True)).json()["tokens"]
        prefix, suffix = await ids(served, "def f("), await ids(served, "return")
        assert served.model.asked[-1].prompt == [*opening, 10, *prefix, 11, *suffix, 12]
        assert (await served.post("/v1/completions", prompt="a", suffix=None, best_of=1)).status_code == 200
        assert (await served.post("/v1/completions", prompt="a", n=2, best_of=2)).status_code == 200
        answer = await served.post("/v1/completions", prompt="a", best_of=2)
        assert answer.json()["error"]["message"] == (
            "Field 'best_of': answers are not ranked; n, which is 1, gives several"
        )
        answer = await served.post("/api/generate", model="scripted", prompt="def f(", suffix="return", stream=False)
        assert answer.json()["response"] == "Hello there." and "context" not in answer.json()
        assert served.model.asked[-1].prompt == [*opening, 10, *prefix, 11, *suffix, 12]
        answer = await served.post("/api/generate", model="scripted", prompt="a", suffix="b " * 300)
        assert answer.status_code == 400
        answer = await served.post("/v1/completions", prompt="a", suffix="b " * 300)
        assert answer.json()["error"]["type"] == "exceed_context_size_error"

    run(tmp_path, scenario, metadata=FIM)
