"""keep_alive as Ollama's clients write it (decisions.md C12)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host.http.keep_alive import parse_keep_alive
from golem_host.registry import UNSET


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, UNSET),
        ("", UNSET),
        (0, 0.0),
        (0.0, 0.0),
        ("0", 0.0),
        ("0s", 0.0),
        (30, 30.0),
        (0.5, 0.5),
        ("300", 300.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("2.5s", 2.5),
        ("300ms", 0.3),
        (-1, None),
        (-0.5, None),
        ("-1", None),
        ("-1m", None),
        (2147483647, None),
        (1e300, None),
        (10**400, None),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    result = parse_keep_alive(value)
    assert result is expected or result == pytest.approx(expected)


@pytest.mark.parametrize(
    "value", [True, False, {}, [], "soon", "5 minutes", "m", " ", "5m!", float("nan"), float("inf")]
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest, match="keep_alive") as refused:
        parse_keep_alive(value)
    assert refused.value.param == "keep_alive"


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.from_regex(r"-?[0-9.]{0,30}[smh]?"))
def test_the_result_can_be_added_to_the_time_or_the_value_is_refused(value: Any) -> None:
    try:
        result = parse_keep_alive(value)
    except BadRequest:
        return
    assert result is UNSET or result is None or (isinstance(result, float) and 0 <= result <= 1e9)
