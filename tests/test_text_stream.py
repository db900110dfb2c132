"""Text leaving a growing answer: whole characters, no stop strings, every character once."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.text import TextStream


def streamed(pieces: Sequence[bytes], stops: Sequence[str] = ()) -> tuple[list[str], str | None]:
    stream = TextStream(stops)
    parts = [stream.push(piece) for piece in pieces]
    return [*parts, stream.finish()], stream.stopped


def whole_answer(data: bytes, stops: Sequence[str]) -> tuple[str, str | None]:
    """The rule, character by character: the first stop string to be complete ends the answer."""
    text = ""
    for character in data.decode("utf-8", "replace"):
        text += character
        ending = [stop for stop in stops if stop and text.endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text.removesuffix(stop), stop
    return text, None


@st.composite
def cut_into_pieces(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> list[bytes]:
    whole = draw(data)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


UNICODE = st.text(alphabet=st.sampled_from("ab\n é你😀\ufffd"), max_size=20).map(str.encode)
BROKEN = st.lists(
    st.sampled_from([b"a", b"b", b"\n", b"\xf0\x9f", b"\x98\x80", b"\xe4\xbd", b"\xff", b"\xed\xa0"])
).map(b"".join)
STOPS = st.lists(st.text(alphabet="ab\n é\ufffd", max_size=4), max_size=4)


@given(pieces=cut_into_pieces(st.one_of(UNICODE, BROKEN)), stops=STOPS)
def test_joined_stream_is_the_whole_answer(pieces: list[bytes], stops: list[str]) -> None:
    parts, stopped = streamed(pieces, stops)
    assert ("".join(parts), stopped) == whole_answer(b"".join(pieces), stops)


@given(pieces=cut_into_pieces(st.one_of(UNICODE, BROKEN)), stops=STOPS)
def test_held_is_what_may_begin_a_stop_and_no_more(pieces: list[bytes], stops: list[str]) -> None:
    stream, decoder = TextStream(stops), codecs.getincrementaldecoder("utf-8")("replace")
    complete = sent = ""
    for piece in pieces:
        complete += decoder.decode(piece)
        sent += stream.push(piece)
        if stream.stopped is not None:
            return
        beginnings = {stop[:length] for stop in stops for length in range(len(stop))}
        held = max((len(beginning) for beginning in beginnings if complete.endswith(beginning)), default=0)
        assert sent == complete[: len(complete) - held]


def test_emoji_in_four_tokens() -> None:
    assert streamed([bytes([byte]) for byte in "a😀b".encode()])[0] == ["a", "", "", "", "😀", "b", ""]


def test_unfinished_character_is_flushed_once() -> None:
    stream = TextStream()
    assert [stream.push(b"x\xf0\x9f"), stream.finish(), stream.finish()] == ["x", "\ufffd", ""]


def test_invalid_bytes_do_not_wait() -> None:
    assert streamed([b"a\xff", b"\xc3", b"("])[0] == ["a\ufffd", "", "\ufffd(", ""]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_stop_text_over_several_tokens(size: int) -> None:
    letters = b"L M N O P Q R S"
    parts, stopped = streamed([letters[at : at + size] for at in range(0, len(letters), size)], ["O P Q"])
    assert ("".join(parts), stopped) == ("L M N ", "O P Q")


def test_held_text_is_sent_once_when_no_stop_comes() -> None:
    stops = ["\n", "Alice:"]
    assert streamed([b" Al", b"ice", b"!"], stops) == ([" ", "", "Alice!", ""], None)
    assert streamed([b"no ", b"Ali"], stops) == (["no ", "", "Ali"], None)
    assert streamed([b"AlAlice: hi"], stops) == (["Al", ""], "Alice:")


def test_text_after_the_stop_is_dropped() -> None:
    stream = TextStream(["###"])
    assert stream.push(b"one ### two ###") == "one "
    assert stream.push(b"three") == ""
    assert (stream.finish(), stream.stopped) == ("", "###")


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["world", "hello"], "say hello world", ("say ", "hello")),
        (["abc", "b"], "xabc", ("xa", "b")),  # complete first
        (["bc", "abc"], "xabc", ("x", "abc")),  # complete together: the longer one
        (["", "z"], "abz", ("ab", "z")),
        ([""], "ab", ("ab", None)),
        (["\ufffd"], "ab", ("ab", None)),
        (["aab"], "aaab", ("a", "aab")),
    ],
)
def test_which_stop_counts(stops: list[str], text: str, expected: tuple[str, str | None]) -> None:
    for pieces in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        parts, stopped = streamed(pieces, stops)
        assert ("".join(parts), stopped) == expected


def test_the_replacement_of_an_unfinished_character_can_complete_a_stop() -> None:
    assert streamed([b"ab\xe4"], ["b\ufffd"]) == (["a", ""], "b\ufffd")
