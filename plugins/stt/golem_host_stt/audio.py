"""Audio files as the model hears them: one channel at 24 kHz. A file is hostile until it is decoded."""

from __future__ import annotations

import io

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from golem_host.api import BadRequest
from golem_host_stt.mimi_config import SAMPLE_RATE

MAX_SECONDS = 7200
"""Of one file: two hours are 660 MiB of samples."""
MIN_SECONDS = 0.1
LOUDEST = 1e6
"""Of samples, where full scale is 1: what lies beyond is no sound, and could overflow."""
RATES = (1000, 768_000)
_BLOCK = 1 << 16
"""Samples that are decoded at a time, those of all channels together (libsndfile takes up to 1024 channels)."""

Samples = NDArray[np.float32]


def decode(raw: bytes) -> Samples:
    """A WAV, FLAC, MP3, OGG or other file that libsndfile reads: the mean of its channels, resampled to 24 kHz.

    The mean, because people record the two ends of a call on a channel each.

    Raises BadRequest, which names the field `file`, for what is none, is cut short, holds no sound, or is too short or
    too long. Takes about a second for an hour: not for the event loop.
    """
    if not raw:
        raise _refused("the file is empty")
    try:
        with soundfile.SoundFile(io.BytesIO(raw)) as file:
            samples = _resampled(file)
    except soundfile.LibsndfileError as error:
        raise _refused(f"the file cannot be decoded as audio: {error.error_string.strip().rstrip('.')}") from None
    if len(samples) < MIN_SECONDS * SAMPLE_RATE:
        raise _refused(f"the audio is shorter than {MIN_SECONDS} s", code="audio_too_short")
    return samples


def check_samples(samples: Samples) -> str | None:
    """What is wrong with samples, None for nothing."""
    if not np.isfinite(samples).all():
        return "the audio holds samples that are no numbers (NaN or infinite)"
    if len(samples) and float(np.abs(samples).max()) > LOUDEST:
        return f"the audio holds samples beyond {LOUDEST:g} times full scale"
    return None


def _resampled(file: soundfile.SoundFile) -> Samples:
    rate, promised = file.samplerate, file.frames
    if not RATES[0] <= rate <= RATES[1]:
        raise _refused(f"the audio has {rate} samples a second; {RATES[0]} to {RATES[1]} are taken")
    if promised == 0:
        raise _refused("the audio holds no samples")
    if promised > MAX_SECONDS * rate:
        raise _too_long()
    stream = None if rate == SAMPLE_RATE else soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32")
    parts: list[Samples] = []
    count, step = 0, _BLOCK // file.channels
    while True:
        block = np.asarray(file.read(step, dtype="float32", always_2d=True), np.float32)
        count += len(block)
        if count > MAX_SECONDS * rate:
            raise _too_long()
        problem = check_samples(block)
        if problem:
            raise _refused(problem)
        mono, last = block.mean(axis=1), len(block) < step
        parts.append(mono if stream is None else np.asarray(stream.resample_chunk(mono, last=last), np.float32))
        if last:
            break
    # libsndfile counts what a WAV file really has; of others the header tells
    if file.format == "FLAC" and count < promised:
        raise _refused(f"the file is cut short: {count} of {promised} samples are there")
    if not count:
        raise _refused("the audio holds no samples")
    return np.concatenate(parts)


def _too_long() -> BadRequest:
    return _refused(f"the audio is longer than {MAX_SECONDS // 3600} hours, the most that is taken at once")


def _refused(reason: str, *, code: str | None = None) -> BadRequest:
    return BadRequest(reason, param="file", code=code)
