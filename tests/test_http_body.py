"""Reading JSON bodies: what is refused and in which words, and that hostile bytes never do more than that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host.http.body import MAX_DEPTH, MAX_ELEMENTS, MAX_VALUES, parse_object
from golem_host.http.writing import json_bytes

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@given(st.dictionaries(st.text(), json_values))
def test_every_object_of_json_is_read_as_it_was_written(value: dict[str, Any]) -> None:
    assert parse_object(json.dumps(value).encode()) == value
    assert parse_object(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary() | st.text(alphabet='{}[]",:\\ud8e+-.0123456789truefalsn \n').map(str.encode))
def test_any_bytes_are_an_object_or_a_bad_request(raw: bytes) -> None:
    try:
        assert isinstance(parse_object(raw), dict)
    except BadRequest as error:
        assert error.status == 400 and error.message


@given(st.lists(st.sampled_from(["\\ud800", "\\udc00", "\\ud83d\\ude00", "\\u00e9", "a", "\\\\ud800"]), max_size=8))
def test_what_is_read_can_always_be_written_as_utf8(pieces: list[str]) -> None:
    text = "".join(pieces)
    raw = f'{{"{text}": ["{text}", {{"k": "{text}"}}]}}'.encode()
    try:
        value = parse_object(raw)
    except BadRequest as error:
        assert "half of a surrogate pair" in error.message
        with pytest.raises(UnicodeEncodeError):
            json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-8")
        return
    assert value == json.loads(json_bytes(value))
    assert json.dumps(value, ensure_ascii=False).encode("utf-8")


def test_more_escapes_than_any_text_needs_are_refused_unread() -> None:
    with pytest.raises(BadRequest, match="more than 4000000 escaped characters; send them as UTF-8"):
        parse_object(b'{"a": "' + rb"\ud83d" * 4_000_001 + b'"}')


@pytest.mark.parametrize("raw", [rb'{"a": "\ud800x"}', rb'{"\udc00": 1}', rb'{"a": [{"b": ["\ud83d\ud83d\ude00"]}]}'])
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="half of a surrogate pair"):
        parse_object(raw)


def test_whole_surrogate_pairs_are_characters() -> None:
    assert parse_object(rb'{"a": "\\ud800", "b": "\ud83d\ude00"}') == {"a": "\\ud800", "b": "\U0001f600"}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "missing request body"),
        (b" \r\n\t ", "missing request body"),
        (b"{", "not valid JSON: .* at line 1 column 2"),
        (b'{"a": 1,\n "b": }', "not valid JSON: Expecting value at line 2 column 7"),
        (b'{"a": 1} x', "not valid JSON: Extra data at line 1 column 10"),
        (b"{'a': 1}", "not valid JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON: .*BOM"),
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": "\x00"}', "not valid JSON: Invalid control character"),
        (b'\x00{"a": 1}', "not valid JSON"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"[]", "must be a JSON object, got an array"),
        (b'"x"', "must be a JSON object, got a string"),
        (b"1", "must be a JSON object, got a number"),
        (b"true", "must be a JSON object, got a boolean"),
        (b"null", "must be a JSON object, got null"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is not a number of JSON"),
        (b'{"a": 1e999}', "number out of range: 1e999"),
        (b'{"a": ' + b"9" * 5000 + b"}", "integer out of range"),
    ],
)
def test_a_bad_body_is_refused_with_the_reason(raw: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_object(raw)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_is_bounded(opening: str) -> None:
    def nested(depth: int) -> bytes:
        closing = "]" if opening == "[" else "}"
        return f'{{"top": {opening * (depth - 1)}null{closing * (depth - 1)}}}'.encode()

    assert parse_object(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(BadRequest, match="nested deeper than 128"):
            parse_object(nested(depth))


def test_many_brackets_that_are_not_deep_are_fine() -> None:
    assert len(parse_object(b'{"a": [' + b"[]," * 500 + b"[]]}")["a"]) == 501


def test_the_number_of_values_is_bounded_before_they_are_made() -> None:
    with pytest.raises(BadRequest, match="more than 4000000 values"):
        parse_object(b'{"a": [' + b"," * MAX_VALUES)


def test_an_array_of_a_million_elements_is_refused_and_a_text_of_as_many_commas_is_not() -> None:
    with pytest.raises(BadRequest, match="an array of 1000000 elements; at most 999999"):
        parse_object(b'{"a": {"b": [[], [' + b"0," * MAX_ELEMENTS + b"0]]}}")
    assert len(parse_object(b'{"a": "' + b"," * 2_000_000 + b'"}')["a"]) == 2_000_000


@pytest.mark.parametrize("raw", [b'{"a": 1, "b": 2, "a": 1}', b'{"x": [{"a": {}, "\\u0061": 2}]}'])
def test_a_name_that_an_object_has_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="names 'a' twice in one object"):
        parse_object(raw)


def test_keys_keep_their_order() -> None:
    assert list(parse_object(b'{"z": 1, "a": 2, "m": 3}')) == ["z", "a", "m"]


def test_what_is_written_holds_no_character_that_ends_a_line_for_anyone() -> None:
    text = "".join(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029, 0xFEFF]))
    written = json_bytes({"text": text})
    assert written.isascii() and len(written.splitlines()) == 1
    assert json.loads(written) == {"text": text}
