"""Events of OpenAI's realtime API, of a session that only transcribes: what a client may send, and what is written."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Any

import msgspec
import numpy as np

from golem_host.errors import BadRequest, RequestError
from golem_host.http.body import parse_object
from golem_host.http.fields import Fields
from golem_host.printable import printable
from golem_host_stt.audio import Samples, check_samples
from golem_host_stt.mimi_config import SAMPLE_RATE

MAX_BYTES = 1 << 20
"""Of one event: 16 seconds of audio."""
FIELDS = {
    "session.update": ("session",),
    "input_audio_buffer.append": ("audio",),
    "input_audio_buffer.commit": (),
    "input_audio_buffer.clear": (),
}
"""The events that are served, and their members beside `type` and `event_id`."""
UNSERVED = {
    "session.include": "log probabilities of tokens are not told",
    "session.audio.input.noise_reduction": "audio is heard as it comes",
    "session.audio.input.turn_detection": "turns are not detected here; commit the buffer where one ends",
    "session.audio.input.transcription.prompt": "these models take no text beside the audio",
}
"""Members of a session that are refused by name, unless they ask for nothing, and why."""


def read_event(raw: bytes) -> Fields:
    """The object that an event is. Raises BadRequest for what is none."""
    if len(raw) > MAX_BYTES:
        raise BadRequest(f"the event has more than the {MAX_BYTES} bytes that are taken")
    return Fields(parse_object(raw))


def check_event(event: Fields) -> str:
    """Its `type`, one of `FIELDS`. Raises BadRequest, naming the member that is not served."""
    kind = event.string("type", "")
    if kind not in FIELDS:
        raise event.fault("type", f"'{printable(kind, 100)}' is not served; served: {', '.join(FIELDS)}")
    event.refuse_others("type", "event_id", *FIELDS[kind])
    return kind


def read_audio(event: Fields) -> Samples:
    """Of an append the samples: base64 of little-endian 16-bit integers at 24 kHz, one channel. Raises BadRequest."""
    try:
        raw = base64.b64decode(event.string("audio", ""), validate=True)
    except (binascii.Error, ValueError):  # also text beyond ASCII
        raise event.fault("audio", "expected base64") from None
    if not raw or len(raw) % 2:
        raise event.fault("audio", f"expected samples of 2 bytes each, got {len(raw)} bytes")
    samples = np.frombuffer(raw, "<i2").astype(np.float32) / np.float32(32768)
    assert check_samples(samples) is None  # integers are always numbers
    return samples


def read_session(event: Fields) -> Fields:
    """Of an update the member `audio.input.transcription`, of which `model` and `language` are the reader's to check.
    Raises BadRequest, naming the member, for whatever else would change anything.
    """
    session = _inner(event, "session")
    session.refuse_others("type", "audio", "include")
    if session.string("type") != "transcription":
        raise session.fault("type", "only a session of type transcription is served")
    _refuse(session, "include", [])
    audio = _inner(session, "audio")
    audio.refuse_others("input")
    heard = _inner(audio, "input")
    heard.refuse_others("format", "noise_reduction", "transcription", "turn_detection")
    for name in ("noise_reduction", "turn_detection"):
        _refuse(heard, name)
    form = _inner(heard, "format")
    form.refuse_others("type", "rate")
    if form.string("type", "audio/pcm") != "audio/pcm":
        raise form.fault("type", "only audio/pcm is served")
    if form.integer("rate", SAMPLE_RATE) != SAMPLE_RATE:
        raise form.fault("rate", f"only {SAMPLE_RATE} is served")
    transcription = _inner(heard, "transcription")
    transcription.refuse_others("model", "language", "prompt")
    _refuse(transcription, "prompt", "")
    return transcription


def described(model: str, language: str) -> dict[str, Any]:
    """A session as its client is told of it."""
    heard = {
        "format": {"type": "audio/pcm", "rate": SAMPLE_RATE},
        "transcription": {"model": model, "language": language or None, "prompt": ""},
        "noise_reduction": None,
        "turn_detection": None,
    }
    return {"type": "transcription", "object": "realtime.transcription_session", "audio": {"input": heard}}


def write(kind: str, **members: Any) -> str:
    """An event to the client."""
    return msgspec.json.encode({"type": kind, "event_id": new_id("event"), **members}).decode()


def error_of(error: RequestError, event: str | None) -> dict[str, Any]:
    """The member `error` of an event; `event` is the `event_id` of the client's event that is at fault."""
    words = {"type": error.type, "code": error.code, "message": error.message, "param": error.param}
    return {**words, "event_id": event}


def new_id(kind: str) -> str:
    """`event_...`, `item_...`."""
    return f"{kind}_{uuid.uuid4().hex[:24]}"


def _inner(outer: Fields, name: str) -> Fields:
    return Fields(outer.object(name) or {}, f"{outer.prefix}{name}.")


def _refuse(fields: Fields, name: str, *harmless: Any) -> None:
    fields.refuse(name, UNSERVED[fields.prefix + name], neutral=harmless)
