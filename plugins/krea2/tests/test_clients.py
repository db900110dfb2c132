"""openai-python, unmodified, against the real command, beside a chat model."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import openai
import pytest

from golem_host.testing.tiny import tiny_gguf
from golem_host.testing.tiny_krea2 import tiny_krea2_directory
from krea2_checks import opened
from server_process import Clients, server


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("clients")
    with server(
        *("-P", "-m", "golem_host", "--enable", "chat,krea2", "--addr", "127.0.0.1:0", "--model-folder", str(folder)),
        *("--chat-model", f"talker={tiny_gguf(folder / 'tiny.gguf', context=64)}"),
        *("--krea2-model", f"painter={tiny_krea2_directory(folder / 'comfy')}"),
    ) as found:
        yield found


def test_generate(clients: Clients) -> None:
    extra = {"steps": 2, "seed": 9}
    answer = clients.openai.images.generate(model="painter", prompt="a fox", size="256x256", extra_body=extra)  # type: ignore[call-overload]
    assert answer.data and answer.data[0].b64_json
    picture = opened(answer.data[0].b64_json)
    assert picture.size == (256, 256)
    assert (picture.text["prompt"], picture.text["seed"]) == ("a fox", "9")  # type: ignore[attr-defined]
    with clients.openai.images.generate(
        model="painter", prompt="a fox", size="256x256", stream=True, partial_images=1, extra_body=extra
    ) as stream:  # type: ignore[call-overload]
        events = list(stream)
    assert [event.type for event in events] == ["image_generation.partial_image", "image_generation.completed"]
    assert events[1].b64_json == answer.data[0].b64_json
    with pytest.raises(openai.BadRequestError) as error:
        clients.openai.images.generate(model="painter", prompt="a fox", n=2)
    assert error.value.param == "n"
    with pytest.raises(openai.BadRequestError, match="serves chat, not image"):
        clients.openai.images.generate(model="talker", prompt="a fox")


def test_a_client_that_leaves_and_one_that_talks(clients: Clients) -> None:
    """The picture nobody waits for makes room for the next one; conversations are answered meanwhile."""
    body = {"model": "painter", "prompt": "x", "size": "1024x1024", "steps": 100, "progress_id": "left"}
    url = f"{clients.url}/v1/images/generations"

    def leave() -> None:
        with pytest.raises(httpx.TimeoutException):
            httpx.post(url, json=body, timeout=1, trust_env=False)

    leaving = threading.Thread(target=leave)
    leaving.start()
    said = clients.openai.chat.completions.create(
        model="talker", messages=[{"role": "user", "content": "hello"}], max_tokens=4
    )
    assert said.choices[0].finish_reason in ("length", "stop")
    leaving.join()
    answer = httpx.post(
        url, json={**body, "size": "256x256", "steps": 1, "progress_id": "next"}, timeout=60, trust_env=False
    )
    assert answer.status_code == 200
    status = httpx.get(f"{clients.url}/v1/images/progress/left", trust_env=False).json()["status"]
    assert status == "failed"
