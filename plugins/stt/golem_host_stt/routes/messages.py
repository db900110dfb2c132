"""Kyutai's messages (Rust's `moshi-server`, `asr.rs`): MessagePack maps whose `type` says what they are."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from golem_host_stt.audio import Samples, check_samples

MAX_BYTES = 1 << 20
"""Of one message: eight seconds of audio and more."""


class BadMessage(Exception):
    """What a client sent is no message of this protocol; the text says why."""


class Init(msgspec.Struct, tag_field="type", tag="Init"):
    """Sent by some clients first; a stream begins with its socket."""


class Audio(msgspec.Struct, tag_field="type", tag="Audio"):
    """Samples at 24 kHz, any number of them."""

    pcm: list[float]


class Marker(msgspec.Struct, tag_field="type", tag="Marker"):
    """Comes back when all that was sent before it has been heard."""

    id: int


class OggOpus(msgspec.Struct, tag_field="type", tag="OggOpus"):
    """Refused: Opus is not decoded here."""

    data: bytes


_decoder = msgspec.msgpack.Decoder(Init | Audio | Marker | OggOpus)


def read(raw: bytes) -> Init | Samples | Marker:
    """A message, of audio its samples. Raises BadMessage."""
    if len(raw) > MAX_BYTES:
        raise BadMessage(f"a message of {len(raw)} bytes; at most {MAX_BYTES} are taken")
    try:
        message = _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:  # a message of another shape is a DecodeError too
        raise BadMessage(f"not a message of this protocol: {error}") from None
    if isinstance(message, OggOpus):
        raise BadMessage("OggOpus is not served; send Audio with samples at 24 kHz")
    if not isinstance(message, Audio):
        return message
    with np.errstate(over="ignore"):
        samples = np.array(message.pcm, np.float32)
    problem = check_samples(samples)
    if problem:
        raise BadMessage(problem)
    return samples


def write(kind: str, **members: Any) -> bytes:
    """A message to the client."""
    return msgspec.msgpack.encode({"type": kind, **members})
