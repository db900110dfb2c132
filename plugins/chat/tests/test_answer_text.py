from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host_chat.answer_text import AnswerText
from golem_host_chat.generation import Extras, Generation
from golem_host_chat.indentation import Indentation
from golem_host_chat.likelihoods import Likelihood, Probabilities
from golem_host_chat.sampling_params import SamplingParams

CERTAIN = Likelihood(0.0, ())
PROBS = Extras(probs=Probabilities(0))


def told(pieces, *, stops=(), extras=PROBS, limit=1000):
    """The answer and its deltas for `pieces` of tokens 0, 1 ..."""
    answer = AnswerText(Generation([0], SamplingParams(), stops=stops, extras=extras), limit)
    deltas = []
    for token, piece in enumerate(pieces):
        delta = answer.push(token, piece, CERTAIN if extras.probs is not None else None)
        if delta is not None:
            deltas.append(delta)
        if answer.finish is not None:
            break
    return answer, deltas


def entries(tokens):
    return [(token.id, token.text) for token in tokens]


def test_each_token_is_told_with_its_text_and_the_end_token_without():
    answer, deltas = told([b"Hi", b" you", None])
    assert entries(answer.told) == [(0, "Hi"), (1, " you"), (2, "")]
    assert [(delta.text, entries(delta.tokens)) for delta in deltas] == [
        ("Hi", [(0, "Hi")]),
        (" you", [(1, " you")]),
        ("", [(2, "")]),
    ]
    assert (answer.text, answer.finish, answer.stop_word) == ("Hi you", "stop", None)


def test_a_character_of_several_tokens_is_told_by_its_last():
    answer, deltas = told([b"a\xf0\x9f", b"\x98", b"\x80b", None])
    assert entries(answer.told) == [(2, "a\U0001f600b"), (3, "")]
    assert [delta.text for delta in deltas] == ["a\U0001f600b", ""]
    answer, _ = told([b"a\xf0\x9f", None])
    assert entries(answer.told) == [(1, "a\ufffd")] and answer.text == "a\ufffd"


def test_bytes_are_those_drawn_even_where_they_are_no_text():
    answer, _ = told([b"a\xb7", b"\xe9", b"b", b"\xf0\x9f", None])
    assert [token.raw for token in answer.told] == [b"a\xb7", b"\xe9b", b"\xf0\x9f"]
    assert [token.text for token in answer.told] == ["a\ufffd", "\ufffdb", "\ufffd"]
    answer, _ = told([b"\xb7 O", b" P", b" \xb7", None], stops=("O P Q",))
    assert [token.raw for token in answer.told] == [b"\xb7 ", b"", b"O P \xb7", b""]


def test_text_held_back_is_told_by_the_token_that_lets_it_leave():
    answer, deltas = told([b"one O", b" P", b" x"], stops=("O P Q",))
    assert entries(answer.told) == [(0, "one "), (1, ""), (2, "O P x")]
    assert [(delta.text, entries(delta.tokens)) for delta in deltas] == [
        ("one ", [(0, "one ")]),
        ("O P x", [(1, ""), (2, "O P x")]),
    ]
    answer, _ = told([b"one O", b" P", None], stops=("O P Q",))
    assert entries(answer.told) == [(0, "one "), (1, ""), (2, "O P")]
    answer, _ = told([b"one O", b" P"], stops=("O P Q",), limit=2)
    assert entries(answer.told) == [(0, "one "), (1, "O P")] and answer.finish == "length"


def test_nothing_is_told_of_a_stop_string():
    answer, deltas = told([b"one", b" O", b" P", b"! Q"], stops=("O P!",))
    assert (answer.text, answer.finish, answer.stop_word) == ("one ", "stop", "O P!")
    assert [entries(delta.tokens) for delta in deltas] == [[(0, "one")], [(1, " ")]]
    assert entries(answer.told) == [(0, "one"), (1, " ")]
    answer, deltas = told([b"one O", b" P!"], stops=("P!",))
    assert [entries(delta.tokens) for delta in deltas] == [[(0, "one O")], [(1, " ")]]


def test_ids_leave_with_the_text_and_at_the_end_if_wanted():
    pieces = [b"a", b"\xf0\x9f", b"\x98\x80", None]
    for wanted, last in ((True, [("", (3,))]), (False, [])):
        _, deltas = told(pieces, extras=Extras(ids=wanted))
        assert [(delta.text, delta.ids) for delta in deltas] == [("a", (0,)), ("\U0001f600", (1, 2)), *last]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"ab", b"\xc3", b"\xa9", b"b\n", b"\xf0\x9f"]), max_size=12), st.booleans()
)
def test_streams_equal_whole_answers_and_texts_of_tokens_join_to_them(pieces, ends):
    for stops in ((), ("ab", "\n\n"), ("é",)):
        answer, deltas = told([*pieces, None] if ends else pieces, stops=stops, limit=len(pieces))
        plain, plain_deltas = told([*pieces, None] if ends else pieces, stops=stops, limit=len(pieces), extras=Extras())
        assert (answer.text, answer.finish) == (plain.text, plain.finish)
        if answer.finish is None:
            continue
        assert "".join(delta.text for delta in deltas) == answer.text == "".join(delta.text for delta in plain_deltas)
        assert "".join(token.text for token in answer.told) == answer.text
        streamed = [token for delta in deltas for token in delta.tokens]
        assert streamed == answer.told


@pytest.mark.parametrize(
    ("least", "text", "kept"),
    [
        (2, "if x:\n  a\n    b\nc", "if x:\n  a\n    b\n"),
        (2, "a\n b", "a\n "),
        (2, "a\n\t\tb\n", "a\n\t\tb\n"),
        (1, "a\n\n b", "a\n"),
        (3, "  a", "  a"),
        (1, "a\nb\n c", "a\n"),
    ],
)
def test_indentation(least, text, kept):
    for cut in range(len(text) + 1):
        rule = Indentation(least)
        parts = rule.push(text[:cut])
        assert (parts if rule.broken else parts + rule.push(text[cut:])) == kept
        assert rule.broken == (kept != text)


def test_an_answer_ends_where_a_line_is_not_indented():
    answer, deltas = told([b"a:", b"\n ", b" b\nc", b"d"], extras=Extras(indent=2))
    assert (answer.text, answer.finish) == ("a:\n  b\n", "length")
    assert "".join(delta.text for delta in deltas) == answer.text
    answer, _ = told([b"a\n", b"b", None], stops=("b",), extras=Extras(indent=1))
    assert (answer.text, answer.finish, answer.stop_word) == ("a\n", "stop", "b")


def test_an_answer_that_takes_too_long_ends_with_its_next_line():
    answer = AnswerText(Generation([0], SamplingParams(), extras=Extras(milliseconds=50)), 1000)
    for token, (piece, passed) in enumerate([(b"a\n", 50), (b"b", 51), (b"c\nd", 60), (b"e", 61)]):
        if answer.finish is None:
            answer.push(token, piece, milliseconds=passed)
    assert (answer.text, answer.finish) == ("a\nbc\nd", "length")
