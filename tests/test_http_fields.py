"""Fields by type: null is absent, wrong types and bounds are refused by name."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host.http.fields import Fields

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("obj", [{}, {"x": None}])
def test_null_is_absent(obj: dict[str, Any]) -> None:
    fields = Fields(obj)
    assert not fields.has("x")
    assert fields.string("x") is None and fields.string("x", "d") == "d"
    assert fields.integer("x") is None and fields.integer("x", 7) == 7
    assert fields.number("x") is None and fields.number("x", 0.5) == 0.5
    assert fields.boolean("x") is None and fields.boolean("x", True) is True
    assert fields.array("x") is None and fields.object("x") is None and fields.value("x") is None
    fields.refuse("x", "reason")


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        ("integer", "3", "Field 'x': expected an integer, got a string"),
        ("integer", True, "Field 'x': expected an integer, got a boolean"),
        ("integer", 3.5, "Field 'x': expected an integer, got a number"),
        ("integer", [], "Field 'x': expected an integer, got an array"),
        ("integer", 10**4000, "Field 'x': expected a value from -9223372036854775808 to 18446744073709551615"),
        ("number", "0.5", "Field 'x': expected a number, got a string"),
        ("number", False, "Field 'x': expected a number, got a boolean"),
        ("number", math.nan, "Field 'x': expected a finite number"),
        ("number", math.inf, "Field 'x': expected a finite number"),
        ("number", 10**4000, "Field 'x': expected a finite number"),
        ("string", 5, "Field 'x': expected a string, got a number"),
        ("boolean", 1, "Field 'x': expected a boolean, got a number"),
        ("boolean", "true", "Field 'x': expected a boolean, got a string"),
        ("array", {}, "Field 'x': expected an array, got an object"),
        ("object", [], "Field 'x': expected an object, got an array"),
    ],
)
def test_a_wrong_type_is_refused_by_name(reader: str, value: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        getattr(Fields({"x": value}), reader)("x")
    assert refused.value.message.startswith(message) and refused.value.param == "x"


def test_whole_floats_are_integers_and_integers_are_numbers() -> None:
    fields = Fields({"a": 3.0, "b": -0.0, "c": 4})
    for name, expected in (("a", 3), ("b", 0)):
        value = fields.integer(name)
        assert value == expected and type(value) is int
    assert fields.number("c") == 4.0 and type(fields.number("c")) is float


def test_bounds_are_inclusive_and_named() -> None:
    fields = Fields({"x": 5, "y": 0.25})
    assert fields.integer("x", minimum=5, maximum=5) == 5
    assert fields.number("y", minimum=0.25, maximum=1) == 0.25
    with pytest.raises(BadRequest, match="Field 'x': expected a value from 6 to 9, got 5"):
        fields.integer("x", minimum=6, maximum=9)
    with pytest.raises(BadRequest, match=r"Field 'y': expected a value from 0\.5 to 1, got 0\.25"):
        fields.number("y", minimum=0.5, maximum=1)


def test_the_prefix_is_part_of_every_name() -> None:
    fields = Fields({"x": "a", "tools": [1]}, prefix="options.")
    with pytest.raises(BadRequest, match=r"Field 'options\.x'") as refused:
        fields.integer("x")
    assert refused.value.param == "options.x"
    with pytest.raises(BadRequest, match=r"'options\.tools' is not served: soon") as refused:
        fields.refuse("tools", "soon")
    assert refused.value.param == "options.tools"


@pytest.mark.parametrize(
    ("value", "neutral", "refused"),
    [
        ([], ([],), False),
        ([1], ([],), True),
        (False, (False,), False),
        (0, (False,), True),
        (False, (0,), True),
        (True, (1,), True),
        (1, (1,), False),
        (1.0, (1,), False),
        ("", ("", 0), False),
        ({}, (), True),
    ],
)
def test_only_neutral_values_of_an_unserved_field_pass(value: Any, neutral: tuple[Any, ...], refused: bool) -> None:
    fields = Fields({"x": value})
    if refused:
        with pytest.raises(BadRequest, match="'x' is not served: reason"):
            fields.refuse("x", "reason", neutral=neutral)
    else:
        fields.refuse("x", "reason", neutral=neutral)


@given(anything, st.sampled_from(["string", "integer", "number", "boolean", "array", "object"]))
def test_any_value_is_read_as_its_type_or_refused(value: Any, reader: str) -> None:
    kinds = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
    try:
        read = getattr(Fields({"x": value}), reader)("x")
    except BadRequest as error:
        assert error.param == "x"
    else:
        assert read is None if value is None else type(read) is kinds[reader] and read == value


def test_others_are_refused_by_name() -> None:
    Fields({"text": "a", "odd": None}).refuse_others("text", "times")
    with pytest.raises(BadRequest, match=r"'options.time' is not known here \(did you mean 'times'\?\)") as refused:
        Fields({"text": "a", "time": 2}, "options.").refuse_others("text", "times")
    assert refused.value.param == "options.time"
    with pytest.raises(BadRequest) as refused:
        Fields({"\n" + "x" * 500: 1}).refuse_others("text")
    assert refused.value.message.isprintable() and len(refused.value.message) < 250
