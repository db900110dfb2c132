"""Transcripts as the API writes them: JSON with or without times, plain text, SubRip and WebVTT."""

from __future__ import annotations

import zlib
from typing import Any

from golem_host_stt.listening import Transcript
from golem_host_stt.segments import Segment, segments

NAMES = {"en": "english", "fr": "french"}
"""Languages as `verbose_json` names them."""


def usage(transcript: Transcript) -> dict[str, Any]:
    """What was heard."""
    return {"type": "duration", "seconds": seconds_begun(transcript.seconds)}


def seconds_begun(seconds: float) -> int:
    """Of milliseconds that are whole."""
    return -(-round(seconds * 1000) // 1000)


def verbose(transcript: Transcript, language: str, granularities: set[str]) -> dict[str, Any]:
    """`verbose_json`: with words, segments or both."""
    body: dict[str, Any] = {
        "task": "transcribe",
        "language": NAMES.get(language, language),
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
    }
    if "segment" in granularities:
        body["segments"] = [_segment(at, each) for at, each in enumerate(segments(transcript))]
    if "word" in granularities:
        body["words"] = [{"word": word.text, "start": word.start, "end": word.end} for word in transcript.words]
    return {**body, "usage": usage(transcript)}


def srt(transcript: Transcript) -> str:
    """SubRip: numbered cues."""
    return "".join(
        f"{at}\n{_clock(each.start, ',')} --> {_clock(each.end, ',')}\n{each.text}\n\n"
        for at, each in enumerate(segments(transcript), 1)
    )


def vtt(transcript: Transcript) -> str:
    """WebVTT."""
    cues = "".join(
        f"{_clock(each.start, '.')} --> {_clock(each.end, '.')}\n{_escaped(each.text)}\n\n"
        for each in segments(transcript)
    )
    return f"WEBVTT\n\n{cues}"


def _segment(at: int, segment: Segment) -> dict[str, Any]:
    raw = segment.text.encode()
    return {
        "id": at,
        "seek": 0,
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": segment.tokens,
        "temperature": 0.0,
        "avg_logprob": segment.logprob,
        "compression_ratio": round(len(raw) / len(zlib.compress(raw)), 4),
        # a word is told where one is heard; the model has no other word for silence
        "no_speech_prob": 0.0,
    }


def _clock(seconds: float, point: str) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}{point}{milliseconds:03d}"


def _escaped(text: str) -> str:
    """Text as WebVTT wants it: `&` and `<` begin something there, and `-->` is an arrow."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
