"""Text that grows token by token, the times of words, and segments made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from golem_host.api import ModelFileError
from golem_host_stt.listening import Transcript
from golem_host_stt.routes.formats import srt, vtt
from golem_host_stt.segments import segments
from golem_host_stt.text import Pieces, RunningText
from golem_host_stt.words import Word, WordBegun, WordEnded, WordTimes, split_words
from stt_checks import tiny

PAD, END = 3, 0


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces(tiny() / "tokenizer.model", 300, PAD)


def token(pieces: Pieces, text: bytes) -> int:
    return next(each for each in range(300) if pieces.bytes_of(each) == text)


def byte(value: int) -> int:
    return 4 + value


def test_running_text_joined_is_the_text(pieces: Pieces) -> None:
    tokens = [PAD, token(pieces, b" then"), END, *map(byte, "é€".encode()), 1, byte(0xE2), token(pieces, b" out"), 299]
    tokens += [byte(0xF0), byte(0x9F)]
    running = RunningText(pieces)
    told = [running.add(each) for each in tokens]
    assert told[:2] == ["", "then"] and told[3:8] == ["", "é", "", "", "€"]
    joined = "".join(told) + running.end()
    assert joined == pieces.text(tokens)
    assert joined.startswith("thené€\ufffd out") and joined.endswith("\ufffd")


def test_what_is_no_text(pieces: Pieces) -> None:
    assert [pieces.bytes_of(each) for each in (END, 1, 2, PAD, -1, 300, 10**6)] == [b""] * 7
    assert pieces.bytes_of(byte(0x41)) == b"A"
    assert pieces.text([token(pieces, b" then"), token(pieces, b" out")]) == "then out"


@pytest.mark.parametrize(
    ("raw", "reason"), [(b"", "no SentencePiece model"), (b"nothing" * 9, "no SentencePiece model")]
)
def test_files_that_are_no_tokenizer(tmp_path: Path, raw: bytes, reason: str) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=reason):
        Pieces(path, 300, PAD)


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="has 300 pieces; the model says 200 tokens at most"):
        Pieces(tiny() / "tokenizer.model", 200, PAD)


def test_times_of_words() -> None:
    """Rust's machine by hand: a delay of 2 steps, 80 ms each."""
    times = WordTimes(2, PAD)
    told = [times.add(each) for each in (50, PAD, END, 51, 52, PAD, PAD, END, 53, END, 54)]
    assert told[0] == [] and told[1] == [] and told[2] == []  # before the delay, a pad, an end of nothing
    assert told[5] == [WordBegun((51, 52), 1 / 12.5)]
    assert told[7] == [WordEnded(6 / 12.5)]
    assert told[9] == [WordBegun((53,), 6 / 12.5), WordEnded(8 / 12.5)]
    assert times.end(2.0) == [WordBegun((54,), 8 / 12.5), WordEnded(2.0)]
    assert WordTimes(2, PAD).end(1.0) == []


def test_a_word_that_is_not_ended_ends_with_the_audio() -> None:
    times = WordTimes(0, PAD)
    assert times.add(50) == [] and times.add(PAD) == [WordBegun((50,), 0.0)]
    assert times.end(3.0) == [WordEnded(3.0)]


def test_words_without_a_pause_are_parted(pieces: Pieces) -> None:
    then, out = token(pieces, b" then"), token(pieces, b" out")
    words = split_words(WordBegun((then, byte(0x73), out, 1), 1.0), 2.0, pieces)
    assert [(word.text, word.start, word.end) for word in words] == [("thens", 1.0, 1.16), ("out", 1.16, 2.0)]
    [short] = split_words(WordBegun((then,), 1.0), 0.5, pieces)
    assert (short.start, short.end) == (1.0, 1.0)


def spoken(*words: tuple[str, float, float], turns: tuple[float, ...] = ()) -> Transcript:
    placed = [Word(text, start, end, (7,)) for text, start, end in words]
    return Transcript(
        " ".join(word.text for word in placed), 99.0, placed, [7] * len(words), [-1.0] * len(words), [*turns]
    )


@pytest.mark.parametrize(
    ("transcript", "texts"),
    [
        (spoken(), []),
        (spoken(("It", 0, 0.2), ("is.", 0.2, 0.5), ("Is", 0.6, 0.7), ("it?", 0.7, 1)), ["It is.", "Is it?"]),
        (spoken(("one", 0, 1), ("two", 1.9, 2), ("three", 3, 4)), ["one two", "three"]),
        (spoken(("one", 0, 1), ("two", 1.5, 2), turns=(1.2,)), ["one", "two"]),
        (spoken(("one", 0, 15), ("two", 15, 30), ("three", 30, 31)), ["one two", "three"]),
    ],
)
def test_segments(transcript: Transcript, texts: list[str]) -> None:
    found = segments(transcript)
    assert [each.text for each in found] == texts
    assert all(each.logprob == -1.0 for each in found)


def test_subtitles() -> None:
    transcript = spoken(("a", 0, 0.5), ("<b>", 3599.9996, 3600.25))
    assert srt(transcript) == ("1\n00:00:00,000 --> 00:00:00,500\na\n\n2\n01:00:00,000 --> 01:00:00,250\n<b>\n\n")
    assert vtt(transcript) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\na\n\n01:00:00.000 --> 01:00:00.250\n&lt;b&gt;\n\n"
    )
    assert srt(spoken()) == "" and vtt(spoken()) == "WEBVTT\n\n"
