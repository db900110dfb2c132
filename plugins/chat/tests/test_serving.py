"""The real command with a chat model, over HTTP: conversations at once, clients that leave, unloading, refusals."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from golem_host.testing.command import Command
from golem_host.testing.tiny import tiny_gguf

CONVERSATIONS = [
    [{"role": "user", "content": "Tell me about the sea."}],
    [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Count: 1, 2, 3,"}],
    [
        {"role": "user", "content": "Hello 👋"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Why is the sky blue, and what is it made of?"},
    ],
    [{"role": "user", "content": "Write a line of Python. " * 12}],
]


@pytest.fixture(scope="module", params=["tiny", pytest.param("smollm2", marks=pytest.mark.real)])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "smollm2":
        return request.getfixturevalue("smollm2_path")
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    tiny_gguf(path, "qwen3", quantization="Q8_0", context=2048)
    return path


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    home = tmp_path_factory.mktemp("home")
    words = ("--enable", "chat", "--chat-model", f"m={model}", "--addr", "127.0.0.1:0", "--context", "8192")
    with Command(*words, env={"GOLEM_HOME": str(home)}) as command:
        yield command


@pytest.fixture
def client(server: Command) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def body(messages: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    return {"messages": messages, "temperature": 0, "max_tokens": 48, "cache_prompt": False, **more}


def whole(client: httpx.Client, messages: list[dict[str, str]]) -> str:
    reply = client.post("/v1/chat/completions", json=body(messages))
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def streamed(client: httpx.Client, messages: list[dict[str, str]]) -> str:
    text = []
    with client.stream("POST", "/v1/chat/completions", json=body(messages, stream=True)) as reply:
        for line in reply.iter_lines():
            if line.startswith("data: {"):
                text += [choice["delta"].get("content", "") for choice in json.loads(line[6:])["choices"]]
    return "".join(text)


def test_four_conversations_at_once_give_the_bytes_each_gives_alone(client: httpx.Client) -> None:
    alone = [whole(client, messages) for messages in CONVERSATIONS]
    assert len(set(alone)) == 4
    for ask in (whole, streamed):
        with ThreadPoolExecutor(4) as pool:
            for _ in range(2):
                together = list(pool.map(lambda messages, ask=ask: ask(client, messages), CONVERSATIONS))
                assert together == alone


def test_mixed_options_in_one_batch_answer_as_alone(client: httpx.Client) -> None:
    """Requests with and without penalties, streamed and not, of different lengths, in one batch."""
    bodies = [
        body(CONVERSATIONS[0], repeat_penalty=1.5),
        body(CONVERSATIONS[1], temperature=1.0, seed=5, top_k=20),
        body(CONVERSATIONS[2], frequency_penalty=0.7, presence_penalty=0.1),
        body(CONVERSATIONS[3], logit_bias={"5": -100}, max_tokens=5),
    ]

    def ask(request: dict[str, Any]) -> str:
        return client.post("/v1/chat/completions", json=request).json()["choices"][0]["message"]["content"]

    alone = [ask(request) for request in bodies]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, bodies)) == alone


class Leaving:
    """A request on a bare socket, so that the client can leave at any moment."""

    def __init__(self, server: Command, request: dict[str, Any]) -> None:
        address = urlsplit(server.url)
        content = json.dumps(request).encode()
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(content)}\r\n\r\n"
        self.socket.sendall(head.encode() + content)

    def leave(self) -> None:
        self.socket.close()


def endless(**more: Any) -> dict[str, Any]:
    """A request that goes on until its context is full."""
    return body(CONVERSATIONS[0], max_tokens=1900, ignore_eos=True, **more)


def test_clients_that_leave_free_their_slots(server: Command, client: httpx.Client) -> None:
    """All four slots are taken and three more wait; everyone leaves, in a stream, in a wait, in line: all is free
    again.
    """
    before = len(server.lines)
    clients = [Leaving(server, endless(stream=i % 2 == 0)) for i in range(7)]
    assert clients[0].socket.recv(10)
    for leaving in clients:
        leaving.leave()
    assert whole(client, CONVERSATIONS[1])
    for _ in range(len(clients)):
        server.wait_for("client left", after=before)
    started = time.monotonic()
    assert whole(client, CONVERSATIONS[1]) and time.monotonic() - started < 60


def test_a_client_that_leaves_while_its_prompt_is_read(server: Command, client: httpx.Client, model: Path) -> None:
    if model.name == "tiny.gguf":
        pytest.skip("reads a prompt faster than a client can leave")
    long_prompt = [{"role": "user", "content": "word " * 1200}]
    before = len(server.lines)
    leaving = Leaving(server, body(long_prompt))
    time.sleep(0.05)
    leaving.leave()
    server.wait_for("client left", after=before)
    assert whole(client, CONVERSATIONS[1])


def mapped(server: Command, model: Path) -> bool:
    return str(model) in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_keep_alive_really_unloads_and_the_next_request_really_loads(
    server: Command, client: httpx.Client, model: Path
) -> None:
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
        "options": {"num_predict": 2},
    }
    assert client.post("/api/chat", json={**request, "keep_alive": 0}).status_code == 200
    for _ in range(100):
        if not client.get("/api/ps").json()["models"]:
            break
        time.sleep(0.1)
    assert client.get("/api/ps").json() == {"models": []}
    assert client.get("/health").status_code == 200, "an unloaded model can still answer"
    if sys.platform == "linux":
        for _ in range(100):  # a thread lets go of it after the model has left the list
            if not mapped(server, model):
                break
            time.sleep(0.1)
        assert not mapped(server, model), "its memory is given back"
    answer = client.post("/api/chat", json={**request, "keep_alive": -1}).json()
    assert answer["done"] and answer["load_duration"] > 0
    assert len(client.get("/api/ps").json()["models"]) == 1
    assert sys.platform != "linux" or mapped(server, model)


def test_more_than_fits_waits_its_turn(client: httpx.Client) -> None:
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: whole(client, CONVERSATIONS[i % 4]), range(12)))
    assert all(answers[i] == answers[i % 4] for i in range(12))


def test_a_full_queue_is_told_with_when_to_come_back(model: Path, tmp_path: Path) -> None:
    words = ("--enable", "chat", "--chat-model", str(model), "--addr", "127.0.0.1:0", "--parallel", "1", "--queue", "1")
    with (
        Command(*words, env={"GOLEM_HOME": str(tmp_path)}) as command,
        httpx.Client(base_url=command.url, timeout=120) as client,
        ThreadPoolExecutor(5) as pool,
    ):
        # Long beside the time in which five requests come; a real model takes that for a few tokens.
        request = endless() if model.name == "tiny.gguf" else endless() | {"max_tokens": 200}
        replies = list(pool.map(lambda _: client.post("/v1/chat/completions", json=request), range(5)))
        assert {reply.status_code for reply in replies} == {200, 503}
        refused = next(reply for reply in replies if reply.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["type"] == "unavailable_error"
        assert whole(client, CONVERSATIONS[0])


def test_the_prompt_that_does_not_fit_is_refused_with_both_counts(client: httpx.Client) -> None:
    reply = client.post("/v1/chat/completions", json=body([{"role": "user", "content": "word " * 9000}]))
    error = reply.json()["error"]
    assert reply.status_code == 400 and error["type"] == "exceed_context_size_error"
    assert error["n_prompt_tokens"] > error["n_ctx"] == 2048


def test_the_reader_that_is_slow_gets_everything(client: httpx.Client) -> None:
    done = threading.Event()
    with client.stream("POST", "/v1/chat/completions", json=body(CONVERSATIONS[0], stream=True)) as reply:
        done.wait(1.0)
        text = "".join(reply.iter_text())
    assert text.endswith("data: [DONE]\n\n")
