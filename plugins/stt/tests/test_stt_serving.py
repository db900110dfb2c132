"""openai-python and a WebSocket client against the real command: every format, streams, company, and hostile input."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import numpy as np
import openai
import pytest
import websockets

from server_process import Clients, server
from stt_checks import encoded, recording, tiny

KEY = "a-key"
AUDIO = recording(3.0, 11)


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with server(
        *("-P", "-m", "golem_host", "--enable", "stt", "--addr", "127.0.0.1:0", "--stt-model", f"tiny={tiny()}"),
        *("--stt-streams", "2", "--api-key", KEY, "--no-any-model"),
    ) as found:
        found.openai.api_key = KEY
        yield found


def transcribe(clients: Clients, file: bytes, **fields: Any) -> Any:
    return clients.openai.audio.transcriptions.create(model="tiny", file=("a.wav", file), **fields)


@pytest.fixture(scope="module")
def text(clients: Clients) -> str:
    """What the recording says: words of a model that means nothing by them."""
    found = transcribe(clients, encoded(AUDIO))
    assert found.usage.type == "duration" and found.usage.seconds == 3
    assert len(found.text.split()) > 5
    return found.text


def test_formats(clients: Clients, text: str) -> None:
    file = encoded(AUDIO)
    assert transcribe(clients, file, response_format="text") == text + "\n"
    verbose = transcribe(clients, file, response_format="verbose_json", timestamp_granularities=["word", "segment"])
    assert verbose.text == text and verbose.duration == 3.0
    words = [word.word for word in verbose.words]
    assert words == " ".join(words).split() and set(words) <= set(
        " ".join(each.text for each in verbose.segments).split()
    )
    assert all(0 <= word.start <= word.end <= 3 for word in verbose.words)
    starts = [word.start for word in verbose.words]
    assert starts == sorted(starts) and starts[-1] > starts[0]
    assert all(each.avg_logprob < 0 and each.start <= each.end for each in verbose.segments)
    segments_only = transcribe(clients, file, response_format="verbose_json")
    assert segments_only.words is None and segments_only.segments == verbose.segments
    srt, vtt = (transcribe(clients, file, response_format=each) for each in ("srt", "vtt"))
    assert re.match(r"1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n\S", srt)
    assert vtt.startswith("WEBVTT\n\n00:00:0")
    assert [cue.split("\n", 2)[2] for cue in srt.strip().split("\n\n")] == [each.text for each in verbose.segments]


def test_a_stream_joined_is_the_whole(clients: Clients, text: str) -> None:
    events = list(transcribe(clients, encoded(AUDIO), stream=True))
    assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * (len(events) - 1)
    assert "".join(event.delta for event in events[:-1]) == text
    assert events[-1].type == "transcript.text.done" and events[-1].text == text
    assert len(events) > 5


def test_two_at_once_equal_alone(clients: Clients) -> None:
    """Of three recordings, for which there are two seats."""
    files = [encoded(recording(seconds, seed)) for seconds, seed in ((2.5, 21), (1.0, 22), (1.7, 23))]
    alone = [transcribe(clients, file, response_format="verbose_json").model_dump() for file in files]
    with ThreadPoolExecutor(3) as pool:
        together = list(
            pool.map(lambda file: transcribe(clients, file, response_format="verbose_json").model_dump(), files)
        )
    assert together == alone


def heard(message: Any) -> dict[str, Any]:
    return msgspec.msgpack.decode(message)


def said(kind: str, **members: Any) -> bytes:
    return msgspec.msgpack.encode({"type": kind, **members})


def live(clients: Clients, scenario: Any, path: str = f"/api/asr-streaming?auth_id={KEY}", **options: Any) -> Any:
    async def run() -> Any:
        url = clients.url.replace("http", "ws") + path
        async with asyncio.timeout(60), websockets.connect(url, proxy=None, close_timeout=0.2, **options) as stream:
            return await scenario(stream)

    return asyncio.run(run())


def test_words_come_while_audio_is_sent(clients: Clients, text: str) -> None:
    frames = [*AUDIO.reshape(-1, 960), *np.zeros((60, 960), np.float32)]

    async def scenario(stream: Any) -> tuple[list[dict[str, Any]], int]:
        assert heard(await stream.recv()) == {"type": "Ready"}
        messages: list[dict[str, Any]] = []
        at_first_word = 0
        for sent, frame in enumerate(frames):
            await stream.send(said("Audio", pcm=frame.tolist()))
            if frame is frames[len(AUDIO) // 960]:
                await stream.send(said("Marker", id=42))
            while sent % 2:  # a frame is complete: its step is told
                messages.append(heard(await stream.recv()))
                if messages[-1]["type"] == "Word" and not at_first_word:
                    at_first_word = sent
                if messages[-1]["type"] == "Step" and messages[-1]["step_idx"] > sent // 2 + 1:
                    break
        while not any(each["type"] == "Marker" for each in messages):
            messages.append(heard(await stream.recv()))
        return messages, at_first_word

    messages, at_first_word = live(clients, scenario)
    kinds = [each["type"] for each in messages]
    assert 0 < at_first_word < len(AUDIO) // 960
    assert kinds.count("Marker") == 1 and messages[kinds.index("Marker")] == {"type": "Marker", "id": 42}
    steps = [each for each in messages if each["type"] == "Step"]
    assert [each["step_idx"] for each in steps] == list(range(1, len(steps) + 1))
    assert all(len(each["prs"]) == 4 and 0 < min(each["prs"]) < max(each["prs"]) < 1 for each in steps)
    words = [each for each in messages if each["type"] == "Word"]
    starts = [each["start_time"] for each in words]
    assert starts == sorted(starts)
    # the same stream as a file: the words of the file begin with those that were told live
    told = " ".join(" ".join(each["text"] for each in words).split())
    file = transcribe(clients, encoded(AUDIO), response_format="verbose_json", timestamp_granularities=["word"])
    assert " ".join(each.word for each in file.words).startswith(told[: len(told) // 2])
    stops = [each["stop_time"] for each in messages if each["type"] == "EndWord"]
    assert stops and stops == sorted(stops)


def test_sockets_want_a_key_and_a_free_stream(clients: Clients) -> None:
    async def first(stream: Any) -> dict[str, Any]:
        return heard(await stream.recv())

    for path, headers in ((f"?auth_id={KEY}x", {}), ("", {}), ("", {"kyutai-api-key": "no"})):
        with pytest.raises(websockets.InvalidStatus) as refused:
            live(clients, first, f"/api/asr-streaming{path}", additional_headers=headers)
        assert refused.value.response.status_code == 401
        assert json.loads(refused.value.response.body)["error"]["code"] == "invalid_api_key"
    for headers in ({"kyutai-api-key": KEY}, {"Authorization": f"Bearer {KEY}"}):
        assert live(clients, first, "/api/asr-streaming", additional_headers=headers) == {"type": "Ready"}
    with pytest.raises(websockets.InvalidStatus) as refused:
        live(clients, first, f"/api/asr-streaming?auth_id={KEY}&model=other")
    assert refused.value.response.status_code == 404

    async def full(stream: Any) -> dict[str, Any]:
        await stream.recv()
        url = clients.url.replace("http", "ws") + f"/api/asr-streaming?auth_id={KEY}"
        async with websockets.connect(url, proxy=None) as second, websockets.connect(url, proxy=None) as third:
            await second.recv()
            return heard(await third.recv())

    assert live(clients, full) == {"type": "Error", "message": "no free channels"}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "not a message of this protocol"),
        (b"\xc1", "not a message of this protocol"),
        (b"\x91" * 100_000, "not a message of this protocol"),
        (said("Nothing"), "not a message of this protocol"),
        (said("Audio", pcm="no"), "not a message of this protocol"),
        (said("Audio", pcm=[0.0, float("nan")]), "no numbers"),
        (said("Audio", pcm=[1e300]), "no numbers"),
        (said("Audio", pcm=[1e7]), "beyond 1e+06 times full scale"),
        (said("OggOpus", data=b"OggS"), "OggOpus is not served"),
        (said("Audio", pcm=[0.5] * 200_000), "at most 1048576 are taken"),
    ],
)
def test_bad_messages_end_their_socket_alone(clients: Clients, message: bytes, reason: str) -> None:
    async def scenario(stream: Any) -> dict[str, Any]:
        await stream.recv()
        url = clients.url.replace("http", "ws") + f"/api/asr-streaming?auth_id={KEY}"
        async with websockets.connect(url, proxy=None) as other:
            await other.recv()
            await other.send(message)
            error = heard(await other.recv())
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await other.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        await stream.send(said("Audio", pcm=[0.1] * 1920))
        assert heard(await stream.recv())["type"] == "Step"
        return error

    error = live(clients, scenario)
    assert error["type"] == "Error" and reason in error["message"]


def test_a_flood_and_a_socket_that_stops_mid_frame_disturb_nobody(clients: Clients, text: str) -> None:
    """A flood is read no faster than it is heard; of the other the server sees half a WebSocket frame."""
    host, port = clients.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(
            f"GET /api/asr-streaming?auth_id={KEY} HTTP/1.1\r\nHost: {host}:{port}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        assert half.recv(64).startswith(b"HTTP/1.1 101")
        half.sendall(b"\x82\xff" + struct.pack(">Q", 10**6) + b"mask" + b"x" * 500)

    async def flood(stream: Any) -> int:
        await stream.recv()
        sent = 0
        message = said("Audio", pcm=[0.01] * 100_000)
        try:
            async with asyncio.timeout(1.5):
                while True:
                    await stream.send(message)
                    sent += 1
        except TimeoutError:
            pass
        assert transcribe_in_thread.result(timeout=60).text == text
        return sent

    with ThreadPoolExecutor(1) as pool:
        transcribe_in_thread = pool.submit(transcribe, clients, encoded(AUDIO))
        assert live(clients, flood) > 0
    assert transcribe(clients, encoded(AUDIO)).text == text


@pytest.mark.parametrize(
    ("file", "fields", "reason"),
    [
        (None, {}, "an audio file is required"),
        (b"", {}, "the file is empty"),
        (b"not audio at all" * 100, {}, "cannot be decoded as audio"),
        (encoded(recording(0.05)), {}, "shorter than 0.1 s"),
        ("good", {"response_format": "diarized_json"}, "expected json, text, srt, verbose_json, vtt"),
        ("good", {"temperature": "0.7"}, "only 0 is served"),
        ("good", {"temperature": "warm"}, "expected a number"),
        ("good", {"language": "de"}, "does not say which languages it hears"),
        ("good", {"prompt": "names"}, "'prompt' is not served"),
        ("good", {"include[]": "logprobs"}, "'include' is not served"),
        ("good", {"chunking_strategy": "auto"}, "'chunking_strategy' is not served"),
        ("good", {"surprise": "x"}, "Field 'surprise' is not known here"),
        ("good", {"stream": "true", "response_format": "srt"}, "is not streamed"),
        ("good", {"stream": "maybe"}, "expected a boolean, got 'maybe'"),
        ("good", {"timestamp_granularities[]": "word"}, "response_format=verbose_json only"),
        ("good", {"timestamp_granularities[]": "day", "response_format": "verbose_json"}, "expected word or segment"),
        ("good", {"language": "x" * 70_000}, "over 65536 bytes"),
    ],
)
def test_what_is_refused(clients: Clients, file: bytes | str | None, fields: dict[str, str], reason: str) -> None:
    given = encoded(recording(0.3)) if file == "good" else file
    files = {"file": ("a.wav", given)} if given is not None else {"model": (None, "tiny")}
    answer = httpx.post(
        f"{clients.url}/v1/audio/transcriptions",
        files=files,  # type: ignore[arg-type]
        data={"model": "tiny", **fields},
        headers={"Authorization": f"Bearer {KEY}"},
        trust_env=False,
    )
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert reason in error["message"] and error["type"] == "invalid_request_error"


def test_bodies_that_are_no_form(clients: Clients) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    url = f"{clients.url}/v1/audio/transcriptions"
    assert httpx.post(url, json={"file": "x"}, headers=headers, trust_env=False).status_code == 415
    for body in (b"", b"--b\r\nnothing", b"--b\r\n" * 1000, b"\x00" * 1000):
        answer = httpx.post(
            url, content=body, headers={**headers, "content-type": "multipart/form-data; boundary=b"}, trust_env=False
        )
        assert answer.status_code == 400, answer.text


def test_another_model_is_not_found(clients: Clients) -> None:
    with pytest.raises(openai.NotFoundError, match="'whisper-1' not found"):
        clients.openai.audio.transcriptions.create(model="whisper-1", file=("a.wav", encoded(AUDIO)))
