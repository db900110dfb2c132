"""`/completion`, `/v1/completions` and `/v1/chat/completions` beside llama.cpp's own server, on a tiny checkpoint."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from golem_host.testing.tiny import tiny_gguf
from server_process import server

pytestmark = pytest.mark.oracle

ORACLE = Path(__file__).parents[3] / "tests" / "oracle" / "llama_server.py"
CLOSE = 0.02
"""Logarithms of probabilities: keys and values are halves."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf", "qwen3", quantization="F32", context=1024)


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> Iterator[httpx.Client]:
    command = ("-P", "-m", "golem_host", "--enable", "chat", "--chat-model", str(checkpoint), "--addr", "127.0.0.1:0")
    with (
        server(*command, "--context", "1024", "--parallel", "1") as clients,
        httpx.Client(base_url=clients.url, trust_env=False, timeout=120) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def theirs(oracle_python: str, checkpoint: Path) -> Iterator[httpx.Client]:
    request = json.dumps({"model": str(checkpoint), "context": 1024, "flash": False, "repack": False, "threads": 1})
    process = subprocess.Popen(
        [oracle_python, str(ORACLE), request], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with httpx.Client(base_url=address, trust_env=False, timeout=120) as client:
            yield client
    finally:
        process.communicate()


GREEDY = {"temperature": 0.0, "cache_prompt": False, "logit_bias": [[byte, False] for byte in range(0x80, 0x100)]}
"""No bytes of no character: of such, llama-server waits for more."""
NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))
"""Tokens of bytes that no character begins with, which llama-server takes for such."""
TEXT = "The capital of France is"


@pytest.fixture(scope="module")
def stops(ours: httpx.Client) -> dict[str, list[str]]:
    """Stop strings of what the model says: none, one that comes, and some of which only the beginnings come."""
    text = post(ours, "/completion", prompt=TEXT, n_predict=40)["content"]
    return {"none": [], "comes": [text[20:24]], "held": [text[8:12] + "\0", text[20:22] + "\0"]}


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json={**GREEDY, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(client: httpx.Client, path: str, **body: Any) -> list[Any]:
    answer = client.post(path, json={**GREEDY, **body, "stream": True})
    assert answer.status_code == 200, answer.text
    found = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: ")]
    return [json.loads(event) for event in found if event != "[DONE]"]


def same_entries(ours: list[Any], theirs: list[Any], kind: str = "logprob") -> None:
    top = f"top_{kind}s"
    names = ("id", "token", "bytes")
    assert [[entry[name] for name in names] for entry in ours] == [[entry[name] for name in names] for entry in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert list(mine) == ["id", "token", "bytes", kind, top] and set(mine) == set(other)
        assert mine[kind] == pytest.approx(other[kind], abs=CLOSE)
        values = {each["id"]: each for each in other[top]}
        assert len(mine[top]) == len(other[top])
        for each in mine[top]:
            assert list(each) == ["id", "token", "bytes", kind]
            if each["id"] in values and each["id"] not in NEVER:  # the last may be another by a hair
                assert {**each, kind: 0} == {**values[each["id"]], kind: 0}
                assert each[kind] == pytest.approx(values[each["id"]][kind], abs=CLOSE)


def settled(entries: list[Any]) -> list[Any]:
    """But the last few: of an answer that its limit cuts, llama-server keeps what it holds back from its entries."""
    return entries[:-6]


@pytest.mark.parametrize("case", ["none", "comes", "held"])
def test_completion(ours: httpx.Client, theirs: httpx.Client, stops: dict[str, list[str]], case: str) -> None:
    body = {"prompt": TEXT, "n_predict": 40, "stop": stops[case], "n_probs": 5, "return_tokens": True}
    one, other = post(ours, "/completion", **body), post(theirs, "/completion", **body)
    assert set(one) == set(other)
    same = ["index", "content", "tokens", "stop", "tokens_predicted", "tokens_evaluated", "tokens_cached", "id_slot"]
    same += ["prompt", "has_new_line", "truncated", "stop_type", "stopping_word"]
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert set(one["timings"]) == set(other["timings"])
    assert set(other["generation_settings"]) - set(one["generation_settings"]) == set()
    told = one["completion_probabilities"], other["completion_probabilities"]
    assert (case == "comes") == (one["stop_type"] == "word")
    if case == "none":
        same_entries(settled(told[0]), settled(told[1]))
    # llama-server holds back all it has not sent, this host only what may be part of a stop string.
    assert [entry["id"] for entry in told[0]] == [entry["id"] for entry in told[1]]


@pytest.mark.parametrize("case", ["none", "comes"])
def test_a_stream_of_it(ours: httpx.Client, theirs: httpx.Client, stops: dict[str, list[str]], case: str) -> None:
    body = {"prompt": TEXT, "n_predict": 40, "stop": stops[case], "n_probs": 2}
    one, other = events(ours, "/completion", **body), events(theirs, "/completion", **body)
    texts = ["".join(event["content"] for event in each) for each in (one, other)]
    assert texts[0].rstrip("\ufffd") == texts[1].rstrip("\ufffd")
    assert set(one[0]) == set(other[0]) and set(one[-1]) == set(other[-1])


def test_probabilities_of_what_sampling_leaves(ours: httpx.Client, theirs: httpx.Client) -> None:
    body = {"prompt": "Once upon a time", "n_predict": 1, "n_probs": 10, "post_sampling_probs": True}
    body |= {"temperature": 0.7, "top_k": 6, "seed": 3, "min_p": 0.01}
    one, other = post(ours, "/completion", **body), post(theirs, "/completion", **body)
    same_entries(one["completion_probabilities"], other["completion_probabilities"], "prob")


@pytest.mark.parametrize("stream", [False, True])
def test_chat(ours: httpx.Client, theirs: httpx.Client, stream: bool) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 30, "logprobs": True}
    told = []
    for client in (ours, theirs):
        path = "/v1/chat/completions"
        answers = events(client, path, **body) if stream else [post(client, path, **body)]
        choices = [choice for answer in answers for choice in answer["choices"]]
        told.append([entry for choice in choices if choice.get("logprobs") for entry in choice["logprobs"]["content"]])
    assert len(told[0]) > 10 and len(told[0][0]["top_logprobs"]) == 20
    same_entries(settled(told[0]), settled(told[1]))


def test_v1_completions(ours: httpx.Client, theirs: httpx.Client) -> None:
    body = {"prompt": TEXT, "max_tokens": 20, "logprobs": 3}
    one, other = post(ours, "/v1/completions", **body), post(theirs, "/v1/completions", **body)
    assert one["choices"][0]["text"] == other["choices"][0]["text"]
    told = [answer["choices"][0]["logprobs"]["content"] for answer in (one, other)]
    same_entries(settled(told[0]), settled(told[1]))


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.0, "dry_multiplier": 2.0, "dry_allowed_length": 1},
        {"temperature": 0.0, "dry_multiplier": 0.8, "dry_sequence_breakers": ["e"]},
        {"temperature": 0.0, "n_indent": 2, "prompt": "def f(x):\n    if x:\n"},
    ],
)
def test_samplers(ours: httpx.Client, theirs: httpx.Client, sampling: dict[str, Any]) -> None:
    body = {"prompt": "1 2 3 4 1 2 3 4 1 2 3 4 1 2", "n_predict": 16, **sampling}
    assert post(ours, "/completion", **body)["content"] == post(theirs, "/completion", **body)["content"]


def test_progress(ours: httpx.Client, theirs: httpx.Client) -> None:
    body = {"prompt": "one two three " * 20, "n_predict": 1, "return_progress": True}
    ends = []
    for client in (ours, theirs):
        reports = [
            event["prompt_progress"] for event in events(client, "/completion", **body) if "prompt_progress" in event
        ]
        assert set(reports[0]) == {"total", "cache", "processed", "time_ms"}
        assert reports[-1]["processed"] == reports[-1]["total"] and reports[0]["processed"] == reports[0]["cache"]
        ends.append(reports[-1]["total"])
    assert ends[0] == ends[1]
