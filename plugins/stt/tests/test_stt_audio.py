"""Audio files: every kind that is taken gives the same sound, and what is none is refused by reason."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
import soundfile

from golem_host.api import BadRequest
from golem_host_stt import audio
from golem_host_stt.audio import decode
from stt_checks import encoded, recording

TONE = (0.4 * np.sin(2 * np.pi * 440 * np.arange(24000) / 24000)).astype(np.float32)


def refused(raw: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as error:
        decode(raw)
    assert error.value.param == "file"
    return error.value


@pytest.mark.parametrize(
    ("format", "subtype", "tolerance"),
    [
        ("WAV", "PCM_U8", 2**-7),
        ("WAV", "PCM_16", 2**-15),
        ("WAV", "PCM_24", 2**-23),
        ("WAV", "PCM_32", 2**-23),
        ("WAV", "FLOAT", 0),
        ("WAV", "DOUBLE", 0),
        ("WAVEX", "PCM_16", 2**-15),
        ("FLAC", "PCM_16", 2**-15),
        ("FLAC", "PCM_24", 2**-23),
        ("OGG", "VORBIS", 0.1),  # lossy
    ],
)
def test_formats(format: str, subtype: str, tolerance: float) -> None:
    found = decode(encoded(TONE, format=format, subtype=subtype))
    assert found.dtype == np.float32 and len(found) == len(TONE)
    assert np.abs(found - TONE).max() <= tolerance


def test_mp3() -> None:
    """Lossy, and shifted by the encoder's delay: the tone is there."""
    found = decode(encoded(TONE, format="MP3", subtype="MPEG_LAYER_III"))
    spectrum = np.abs(np.fft.rfft(found[4000:20000]))
    assert np.argmax(spectrum) == round(440 * 16000 / 24000) + (1 if 440 * 16000 % 24000 > 12000 else 0)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000, 96000])
def test_rates(rate: int) -> None:
    """A tone of every rate is the tone at 24 kHz, but for the edges of the filter."""
    tone = (0.4 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)).astype(np.float32)
    found = decode(encoded(tone, rate=rate))
    assert abs(len(found) - 24000) <= 1
    assert np.abs(found[500:-500] - TONE[500 : len(found) - 500]).max() < 1e-3


def test_the_mean_of_channels_is_heard() -> None:
    other = recording(1.0)
    for rate in (24000, 16000):
        both = decode(encoded(np.stack([TONE, other], axis=1), rate=rate))
        np.testing.assert_array_equal(both, decode(encoded(((TONE + other) / 2).astype(np.float32), rate=rate)))
    np.testing.assert_array_equal(decode(encoded(np.stack([TONE] * 2, axis=1))), TONE)


def test_many_channels_are_read_in_blocks() -> None:
    np.testing.assert_allclose(decode(encoded(np.stack([TONE] * 1000, axis=1))), TONE, rtol=1e-5)  # the sum rounds


def test_numbers_of_any_channel_are_looked_at() -> None:
    with pytest.raises(BadRequest, match="no numbers"):
        decode(encoded(np.stack([TONE, np.where(TONE > 0.3, np.inf, TONE)], axis=1)))


def test_long_files_are_read_in_blocks() -> None:
    samples = recording(9.0)
    np.testing.assert_array_equal(decode(encoded(samples)), samples)
    whole = decode(encoded(samples, rate=16000))
    assert abs(len(whole) - len(samples) * 24000 / 16000) <= 2


def chunked(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


FMT = (b"fmt ", struct.pack("<HHIIHH", 1, 1, 24000, 48000, 2, 16))
PCM = (TONE * 32767).astype("<i2").tobytes()


@pytest.mark.parametrize(
    "raw",
    [
        chunked(FMT, (b"LIST", b"INFOISFT\x04\0\0\0Lavf"), (b"data", PCM)),
        chunked((b"JUNK", b"\0" * 28), FMT, (b"fact", b"\0" * 4), (b"data", PCM), (b"id3 ", b"xyz")),
        chunked(FMT, (b"data", PCM))[:40] + b"\xff\xff\xff\xff" + PCM,  # as programs write into a pipe
        chunked(FMT, (b"data", PCM))[:40] + struct.pack("<I", 2 << 30) + PCM,
    ],
    ids=["info", "junk", "endless", "two gigabytes"],
)
def test_odd_headers(raw: bytes) -> None:
    """What is there is heard, whatever length a header promises."""
    np.testing.assert_allclose(decode(raw), TONE, rtol=0, atol=2**-14)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "the file is empty"),
        (b"RIFF", "cannot be decoded as audio"),
        (b"\x00" * 10_000, "cannot be decoded as audio"),
        (b"<html>not audio</html>" * 99, "cannot be decoded as audio"),
        (encoded(np.zeros(0, np.float32)), "holds no samples"),
        (encoded(np.zeros(1, np.float32)), "shorter than 0.1 s"),
        (encoded(np.full(9000, np.nan, np.float32)), "no numbers"),
        (encoded(np.full(9000, -np.inf, np.float32)), "no numbers"),
        (encoded(np.full(9000, 1e9, np.float32)), r"beyond 1e\+06 times full scale"),
        (encoded(TONE, rate=10), "10 samples a second"),
        (encoded(TONE, rate=1_000_000), "1000000 samples a second"),
        (encoded(TONE, format="FLAC", subtype="PCM_16")[:-3000], "cut short|cannot be decoded"),
        (chunked(FMT), "cannot be decoded|no samples"),
        (chunked((b"fmt ", struct.pack("<HHIIHH", 1, 0, 24000, 0, 0, 16)), (b"data", PCM)), "cannot be decoded"),
    ],
)
def test_what_is_refused(raw: bytes, reason: str) -> None:
    error = refused(raw)
    assert re.search(reason, error.message), error.message


def test_too_short_has_its_code() -> None:
    assert refused(encoded(recording(0.09))).code == "audio_too_short"
    assert len(decode(encoded(recording(0.1)))) == 2400


def test_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a header promises is refused undecoded, whatever there is."""
    raw = encoded(TONE, format="FLAC", subtype="PCM_16")
    facts = int.from_bytes(raw[18:26], "big") >> 36 << 36  # of STREAMINFO, whose last 36 bits here count the samples
    monkeypatch.setattr(soundfile.SoundFile, "read", None)
    promising = raw[:18] + (facts | 3 * 3600 * 24000).to_bytes(8, "big") + raw[26:]
    assert "longer than 2 hours" in refused(promising).message


def test_too_long_without_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted as it is decoded, where a format tells little before; however small the file is."""
    monkeypatch.setattr(soundfile.SoundFile, "frames", 24000)
    monkeypatch.setattr(soundfile.SoundFile, "seekable", lambda _: False)
    monkeypatch.setattr(audio, "MAX_SECONDS", 3600)
    hours = encoded(np.zeros(3601 * 8000, np.float32), rate=8000, format="FLAC", subtype="PCM_16")
    assert len(hours) < 1 << 20
    assert "longer than 1 hours" in refused(hours).message


def test_damaged_files_end_with_a_reason() -> None:
    """Files of every kind with bytes changed: they are heard, or refused."""
    rng = np.random.default_rng(5)
    kinds = [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")]
    for format, subtype in kinds:
        whole = encoded(TONE[:6000], format=format, subtype=subtype)
        for _ in range(40):
            raw = bytearray(whole[: int(rng.integers(1, len(whole) + 1))] if rng.random() < 0.3 else whole)
            for at in rng.integers(0, min(len(raw), 200), 3):
                raw[at] = rng.integers(0, 256)
            try:
                assert np.isfinite(decode(bytes(raw))).all()
            except BadRequest as error:
                assert error.param == "file"
