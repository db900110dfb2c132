"""Text of others in log lines and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import LONGEST_MESSAGE, LONGEST_REFUSAL, ModelFileError, NotFound
from golem_host.lanes.lane import pass_failed
from golem_host.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("caf\u00e9 \u2014 \u6f22", "caf\u00e9 \u2014 \u6f22"),
        ("a\nb\x1b[2J", "a\\nb\\x1b[2J"),
        ("\u202ex\u2028", "\\u202ex\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_garbles_a_line_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(max_size=30), st.integers(2, 30))
def test_any_text_fits_a_line(text: str, longest: int) -> None:
    shown = printable(text, longest)
    assert shown.isprintable()
    assert (shown == printable(text)) == (len(text) <= longest)


def test_a_refusal_does_not_repeat_a_file() -> None:
    error = ModelFileError("model.gguf", "'k' is 'x\n" + "y" * 10**6 + "z'")
    assert str(error).startswith("model.gguf: 'k' is 'x\\nyyy")
    assert str(error).endswith("yyyz'")
    assert "characters ...]" in error.message and len(error.message) < LONGEST_REFUSAL + 100


def test_a_refusal_does_not_repeat_a_request() -> None:
    error = NotFound(f"model '{'y' * 10**6}' not found", param="x" * 10**6)
    assert error.message == str(error) and error.message.endswith("yyy' not found")
    assert all(len(text or "") < LONGEST_MESSAGE + 100 for text in (error.message, error.param))


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_an_error_whose_text_cannot_be_told_is_told_of() -> None:
    told = pass_failed(Mute()).message
    assert told.endswith("this answer (Mute: no message, for telling it raises ValueError)")
