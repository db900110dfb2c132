"""openai-python's realtime client against the real command: words while audio is sent, items, refusals by name."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import websockets

from server_process import Clients, server
from stt_checks import encoded, recording, tiny

# openai-python connects as websockets before 17.1 wants it.
pytestmark = pytest.mark.filterwarnings(r"ignore:connect\(\) must be used as a context manager:DeprecationWarning")

TRANSCRIPTION = "conversation.item.input_audio_transcription"
AUDIO = (recording(3.0, 11) * 32767).astype("<i2")


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with server(
        *("-P", "-m", "golem_host", "--enable", "stt", "--addr", "127.0.0.1:0", "--stt-model", f"tiny={tiny()}"),
        *("--stt-streams", "2", "--api-key", "a-key"),
    ) as found:
        found.openai.api_key = "a-key"
        yield found


@pytest.fixture(scope="module")
def text(clients: Clients) -> str:
    """What the recording says when it is sent as a file."""
    return said(clients, AUDIO)


def said(clients: Clients, samples: Any) -> str:
    file = encoded(samples.astype(np.float32) / np.float32(32768))
    return clients.openai.audio.transcriptions.create(model="tiny", file=("a.wav", file)).text


def base64_of(samples: Any) -> str:
    return base64.b64encode(samples.tobytes()).decode()


def connected(clients: Clients) -> Any:
    return clients.openai.realtime.connect(model="tiny", websocket_connection_options={"proxy": None})  # type: ignore[typeddict-unknown-key]


def test_words_come_while_audio_is_sent_and_an_item_is_what_the_file_says(clients: Clients, text: str) -> None:
    with connected(clients) as connection:
        created = connection.recv()
        assert created.type == "session.created" and created.session.type == "transcription"
        transcription = {"model": "tiny"}
        connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": transcription,
                        "turn_detection": None,
                    }
                },
            }
        )
        updated = connection.recv()
        assert updated.type == "session.updated"
        assert updated.session.audio.input.transcription.model == "tiny"
        for part in np.split(AUDIO, 30):
            connection.input_audio_buffer.append(audio=base64_of(part))
        first = connection.recv()
        assert first.type == f"{TRANSCRIPTION}.delta", "before the buffer was committed"
        connection.input_audio_buffer.commit()
        events = [first]
        while events[-1].type != f"{TRANSCRIPTION}.completed":
            events.append(connection.recv())
        committed = next(event for event in events if event.type == "input_audio_buffer.committed")
        assert committed.previous_item_id is None and committed.item_id == first.item_id
        completed = events[-1]
        assert completed.transcript == text and len(text.split()) > 5
        assert (completed.item_id, completed.usage.type, completed.usage.seconds) == (first.item_id, "duration", 3)
        deltas = [event.delta for event in events if event.type == f"{TRANSCRIPTION}.delta"]
        assert "".join(deltas) == text and len(deltas) > 5
        assert len({event.event_id for event in events}) == len(events)


def test_items_follow_each_other_and_what_is_cleared_is_not_heard(clients: Clients) -> None:
    parts = [AUDIO[:30_001], AUDIO[30_001:]]
    with connected(clients) as connection:
        connection.recv()
        connection.input_audio_buffer.append(audio=base64_of(AUDIO[10_000:20_000]))
        connection.input_audio_buffer.clear()
        for part in parts:
            connection.input_audio_buffer.append(audio=base64_of(part))
            connection.input_audio_buffer.commit()
        items: list[Any] = []
        transcripts: dict[str, str] = {}
        while len(transcripts) < 2:
            event = connection.recv()
            assert event.type != "error", event
            if event.type == "input_audio_buffer.committed":
                items.append(event)
            elif event.type == f"{TRANSCRIPTION}.completed":
                transcripts[event.item_id] = event.transcript
    assert [item.previous_item_id for item in items] == [None, items[0].item_id]
    assert [transcripts[item.item_id] for item in items] == [said(clients, part) for part in parts]


def update(**heard: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "transcription", "audio": {"input": heard}}}


@pytest.mark.parametrize(
    ("event", "param", "reason"),
    [
        ("{", None, "not valid JSON"),
        ("[]", None, "must be a JSON object"),
        ("x" * (1 << 21), None, "more than the 1048576 bytes"),
        ({"type": "response.create"}, "type", "'response.create' is not served; served: session.update"),
        ({"type": 4}, "type", "expected a string"),
        ({}, "type", "'' is not served"),
        ({"type": "session.update"}, "session.type", "only a session of type transcription"),
        ({"type": "session.update", "session": {"type": "realtime"}}, "session.type", "only a session of type"),
        (
            {"type": "session.update", "session": {"type": "transcription", "include": ["x"]}},
            "session.include",
            "log probabilities of tokens are not told",
        ),
        (update(format={"type": "audio/pcmu"}), "session.audio.input.format.type", "only audio/pcm is served"),
        (update(format={"rate": 16000}), "session.audio.input.format.rate", "only 24000 is served"),
        (update(noise_reduction={"type": "near_field"}), "session.audio.input.noise_reduction", "heard as it comes"),
        (update(turn_detection={"type": "server_vad"}), "session.audio.input.turn_detection", "turns are not detected"),
        (update(transcription={"prompt": "x"}), "session.audio.input.transcription.prompt", "no text beside"),
        (update(transcription={"language": "de"}), "session.audio.input.transcription.language", "does not say which"),
        (update(surprise=1), "session.audio.input.surprise", "not known here"),
        ({"type": "input_audio_buffer.append"}, "audio", "expected samples of 2 bytes each, got 0 bytes"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "audio", "expected base64"),
        ({"type": "input_audio_buffer.append", "audio": "é"}, "audio", "expected base64"),
        ({"type": "input_audio_buffer.append", "audio": "AAAA"}, "audio", "got 3 bytes"),
        ({"type": "input_audio_buffer.append", "audio": "AAA=", "x": 1}, "x", "not known here"),
        ({"type": "input_audio_buffer.commit"}, None, "the buffer holds 0 s of audio; at least 0.1 s"),
    ],
)
def test_what_is_refused(clients: Clients, event: Any, param: str | None, reason: str) -> None:
    """By name; the session goes on."""

    async def run() -> None:
        url = clients.url.replace("http", "ws") + "/v1/realtime"
        headers = {"Authorization": "Bearer a-key"}
        async with (
            asyncio.timeout(60),
            websockets.connect(url, proxy=None, additional_headers=headers, subprotocols=["realtime"]) as stream,  # type: ignore[list-item]
        ):
            assert stream.subprotocol == "realtime"
            assert json.loads(await stream.recv())["type"] == "session.created"
            await stream.send(event if isinstance(event, str) else json.dumps({"event_id": "mine", **event}))
            told = json.loads(await stream.recv())
            assert told["type"] == "error" and told["error"]["type"] == "invalid_request_error"
            assert reason in told["error"]["message"] and told["error"]["param"] == param
            assert told["error"]["event_id"] == (None if isinstance(event, str) else "mine")
            await stream.send(json.dumps({"type": "input_audio_buffer.clear"}))
            assert json.loads(await stream.recv())["type"] == "input_audio_buffer.cleared"

    asyncio.run(run())


def test_sessions_that_are_refused(clients: Clients) -> None:
    for query, status in (("?intent=conversation", 400), ("?call_id=x", 400)):
        with (
            pytest.raises(websockets.InvalidStatus) as refused,
            clients.openai.realtime.connect(extra_query=dict([query[1:].split("=")])),
        ):
            pass
        assert refused.value.response.status_code == status
    clients.openai.api_key = "no"
    try:
        with pytest.raises(websockets.InvalidStatus) as refused, connected(clients):
            pass
    finally:
        clients.openai.api_key = "a-key"
    assert refused.value.response.status_code == 401
