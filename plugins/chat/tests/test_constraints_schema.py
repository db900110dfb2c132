"""JSON schemas through the mask: what fits passes, what does not cannot be drawn, what is not enforced is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constraint_checks import Masks, document, masks
from golem_host_chat.constraints.json_schema import (
    ENFORCED,
    FORMATS,
    MAX_CHARACTERS,
    MAX_LEVELS,
    REFUSED,
    SchemaError,
    json_rule,
)
from golem_host_chat.constraints.vocabulary import UncompiledError

DOCS = Path(__file__).parents[3] / "docs" / "constraints.md"

A, B = {"type": "integer"}, {"type": "string"}
# By keyword: schemas, each with documents that fit and documents that do not. A str is a JSON text as it stands.
KEYWORDS: dict[str, list[tuple[Any, list[Any], list[Any]]]] = {
    "type": [
        ({"type": "object"}, [{}, {"a": [1, {"b": None}]}], [[], 1, '"x"', "", "{", '{"a"}', "{} "]),
        ({"type": "array"}, [[], [1, "a", [None]]], [{}, "[1,]", "[1 2]"]),
        ({"type": "string"}, ['""', '"é\\n\\u00e9\\"/"', '"\\ud83d\\ude00"'], ['"', '"\n"', '"\\x"', '"\\ud83d"', 1]),
        ({"type": "number"}, [0, -1.5, "1e5", "2E-3", "-0"], ["01", "1.", ".5", "+1", "--1", "NaN", '"1"']),
        ({"type": "integer"}, [0, -12, 10**30], [1.5, "1e2", "-", "00"]),
        ({"type": "boolean"}, ["true", "false"], ["True", "null", "tru"]),
        ({"type": "null"}, ["null"], ["nul", "None", 0]),
        ({"type": ["integer", "null"]}, [3, "null"], ['"3"', 1.5]),
    ],
    "properties": [
        ({"type": "object", "properties": {"a": A}}, [{}, {"a": 1}, {"a": 1, "b": "x"}], [{"a": "x"}]),
        ({"properties": {"a": A}}, [{"a": 1}, 3, '"text"', []], [{"a": None}]),
        ({"type": "object", "properties": {"a": A, "b": B}}, [{"a": 1, "b": "x"}, {"b": "x"}], ['{"a":1,"a":2}']),
    ],
    "required": [
        ({"type": "object", "properties": {"a": A, "b": B}, "required": ["b"]}, [{"a": 1, "b": ""}], [{}, {"a": 1}]),
        ({"type": "object", "required": ["z"]}, [{"z": None}], [{}, {"y": 1}]),
    ],
    "additionalProperties": [
        ({"type": "object", "properties": {"a": A}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
        ({"type": "object", "additionalProperties": A}, [{}, {"x": 1, "y": 2}], [{"x": "1"}]),
    ],
    "patternProperties": [
        (
            {"type": "object", "patternProperties": {"^n_": A, "^s_": B}, "additionalProperties": False},
            [{"n_x": 1, "s_x": "y"}, {}],
            [{"n_x": "y"}, {"s_x": 1}, {"other": 1}],
        ),
        (
            {"type": "object", "properties": {"n_a": {"minimum": 5}}, "patternProperties": {"^n_": A}},
            [{"n_a": 5}],
            [{"n_a": 4}, {"n_a": 5.5}, {"n_a": "5"}],
        ),
    ],
    "minProperties": [({"type": "object", "additionalProperties": A, "minProperties": 1}, [{"a": 1}], [{}])],
    "maxProperties": [
        (
            {"type": "object", "additionalProperties": A, "maxProperties": 2},
            [{}, {"a": 1, "b": 2}],
            [{"a": 1, "b": 2, "c": 3}],
        )
    ],
    "items": [
        ({"type": "array", "items": A}, [[], [1, 2]], [["a"], [1, "a"]]),
        ({"type": "array", "items": [A, B]}, [[1, "a"], [1]], [["a"], [1, 2]]),
    ],
    "additionalItems": [({"type": "array", "items": [A], "additionalItems": False}, [[], [1]], [[1, 2], ["a"]])],
    "prefixItems": [
        ({"type": "array", "prefixItems": [A, B]}, [[], [1], [1, "a", None]], [["a"], [1, 2]]),
        ({"type": "array", "prefixItems": [A], "items": False}, [[1]], [[1, 1]]),
        ({"type": "array", "prefixItems": [A], "items": B}, [[1, "a", "b"]], [[1, 1]]),
    ],
    "minItems": [({"type": "array", "items": A, "minItems": 2.0}, [[1, 2], [1, 2, 3]], [[], [1]])],
    "maxItems": [({"type": "array", "items": A, "maxItems": 1}, [[], [1]], [[1, 2]])],
    "minLength": [({"type": "string", "minLength": 2}, ['"ab"', '"日本"', '"\\n\\t"'], ['""', '"日"', '"\\n"'])],
    "maxLength": [({"type": "string", "maxLength": 2}, ['""', '"日本"', '"\\n\\""'], ['"abc"', '"日本語"'])],
    "pattern": [
        ({"type": "string", "pattern": "b+"}, ['"b"', '"abbc"'], ['"a"', '""']),
        ({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, ['"AB-1"'], ['"AB-"', '"ABC-1"', '"AB-1x"', '"AB-١"']),
        ({"type": "string", "pattern": "^[a&&b[]$"}, ['"a"', '"&"', '"["'], ['"c"', '"ab"']),
        ({"type": "string", "pattern": "^\\/\\w$"}, ['"/a"', '"/_"'], ['"/é"', '"/"']),
        ({"type": "string", "pattern": "^a$|^b$"}, ['"a"', '"b"'], ['"ab"', '""']),
    ],
    "format": [
        ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2024-13-01"', '"2024-1-1"', '"today"']),
        ({"type": "string", "format": "time"}, ['"23:59:60Z"', '"01:02:03.5+01:00"'], ['"24:00:00Z"', '"01:02"']),
        (
            {"type": "string", "format": "date-time"},
            ['"2024-01-31T01:02:03Z"'],
            ['"2024-01-31"', '"2024-01-32T01:02:03Z"'],
        ),
        ({"type": "string", "format": "duration"}, ['"P1DT2H"', '"P3W"'], ['"1D"', '"P"']),
        ({"type": "string", "format": "email"}, ['"a.b@c.org"'], ['"a.b"', '"@c.org"']),
        ({"type": "string", "format": "hostname"}, ['"a-b.example"'], ['"-a"', '"a..b"']),
        ({"type": "string", "format": "ipv4"}, ['"127.0.0.1"'], ['"127.0.0"', '"256.0.0.1"']),
        ({"type": "string", "format": "ipv6"}, ['"::1"', '"2001:db8::2"'], ['"1"', '":::"']),
        ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567"', '"g"']),
        ({"type": "string", "format": "uri"}, ['"https://a.b/c?d=e#f"'], ['"a b"', '"//x"']),
    ],
    "minimum": [
        ({"type": "integer", "minimum": 3}, [3, 100], [2, -5]),
        ({"type": "number", "minimum": 0.5}, [0.5, 2], [0.4, -1]),
    ],
    "maximum": [
        ({"type": "integer", "maximum": 12}, [12, -3], [13, 100]),
        ({"type": "number", "maximum": 1.5}, [1.5, -2], [1.6]),
    ],
    "exclusiveMinimum": [({"type": "number", "exclusiveMinimum": 0}, [0.001, 7], [0, "0.0", -1])],
    "exclusiveMaximum": [({"type": "integer", "exclusiveMaximum": 10}, [9, -1], [10, 11])],
    "multipleOf": [
        ({"type": "integer", "multipleOf": 3}, [0, 9, -3], [1, 10]),
        ({"type": "number", "multipleOf": 0.5}, [1.5], [1.2]),
    ],
    "enum": [
        (
            {"enum": ["a", 1, None, {"x": [1]}]},
            ['"a"', 1, "null", {"x": [1]}],
            ['"b"', 2, {"x": []}, {"x": [1], "y": 2}],
        ),
        ({"type": "string", "enum": ["a", 5]}, ['"a"'], [5]),
    ],
    "const": [({"const": {"k": 'é\n"'}}, [{"k": 'é\n"'}], [{}, {"k": "e"}]), ({"const": 1.5}, [1.5], [1, 1.25])],
    "anyOf": [({"anyOf": [A, {"type": "string", "maxLength": 1}]}, [1, '"a"'], ['"ab"', "null"])],
    "oneOf": [
        ({"oneOf": [A, B]}, [1, '"a"'], ["null", 1.5]),
        (
            {
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"const": kind}, "v": rule}, "required": ["kind", "v"]}
                    for kind, rule in (("a", A), ("b", B))
                ]
            },
            [{"kind": "a", "v": 1}, {"kind": "b", "v": "x"}],
            [{"kind": "a", "v": "x"}, {"kind": "c", "v": 1}],
        ),
    ],
    "allOf": [
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"a": A}, "required": ["a"]},
                    {"properties": {"b": B}, "required": ["b"]},
                ]
            },
            [{"a": 1, "b": "x"}],
            [{"a": 1}, {"b": "x"}, {"a": "x", "b": "x"}],
        ),
        ({"allOf": [{"minimum": 3}], "type": "integer", "maximum": 4}, [3, 4], [2, 5]),
    ],
    "$ref": [
        (
            {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
            [{}, {"next": {"next": {}}}],
            [{"next": 1}, {"other": {}}],
        ),
        ({"$ref": "#/x~1y/odd%20name", "x/y": {"odd name": A}}, [1], ['"a"']),
        ({"type": "array", "items": {"$ref": "#/prefixItems/0"}, "prefixItems": [A]}, [[1, 2]], [[1, "a"]]),
        ({"$ref": "#/$defs/s", "minLength": 2, "$defs": {"s": B}}, ['"ab"'], ['"a"', 12]),
    ],
    "$defs": [
        (
            {"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"},
            [[], [[], [[]]]],
            [1, [1]],
        )
    ],
    "definitions": [({"definitions": {"n": A}, "items": {"$ref": "#/definitions/n"}, "type": "array"}, [[1]], [["a"]])],
}


def chain(length: int) -> dict[str, Any]:
    """A schema of as many that refer to each other one by one."""
    links = {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(length)}
    return {"$ref": "#/$defs/0", "$defs": {**links, str(length): B}}


CASES = [
    pytest.param(*case, id=f"{keyword}-{i}") for keyword, cases in KEYWORDS.items() for i, case in enumerate(cases)
]


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masks]:
    with masks(tmp_path_factory.mktemp("masks")) as made:
        yield made


@pytest.mark.parametrize(("schema", "fitting", "others"), CASES)
def test_documents(checker: Masks, schema: Any, fitting: list[Any], others: list[Any]) -> None:
    constraint = checker.schema(schema)
    for value in fitting:
        assert checker.fits(constraint, document(value)), value
    for value in others:
        assert not checker.fits(constraint, document(value)), value


def test_every_enforced_keyword_and_format_has_documents() -> None:
    assert set(KEYWORDS) == set(ENFORCED)
    assert {schema["format"] for schema, _, _ in KEYWORDS["format"]} == set(FORMATS)


@pytest.mark.parametrize("keyword", REFUSED)
def test_what_is_not_enforced_is_refused_by_name(keyword: str) -> None:
    for schema in ({keyword: {"type": "string"}}, {"items": {"anyOf": [True, {keyword: {"type": "string"}}]}}):
        with pytest.raises(SchemaError, match=rf"'{re.escape(keyword)}' at #.* is not enforced"):
            json_rule({"type": ["array", "object"], **schema})


def test_what_demands_nothing_is_taken(checker: Masks) -> None:
    described = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.org/s",
        "$comment": "x",
        "$anchor": "here",
        "title": "T",
        "description": "d",
        "default": 1,
        "examples": [2],
        "deprecated": True,
        "readOnly": True,
        "contentEncoding": "base64",
        "nullable": True,
        "x-own": {"not": 3},
        "uniqueItems": False,
        "unevaluatedProperties": True,
        "type": "array",
        "prefixItems": [A],
    }
    constraint = checker.schema(described)
    assert checker.fits(constraint, "[1,2]") and not checker.fits(constraint, '["a"]')


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"a": 5}}, "#/properties/a is a number"),
        ({"items": {"$ref": "https://example.org/x"}}, "'$ref' at #/items is 'https://example.org/x'"),
        ({"$ref": "other.json#/a"}, "only '#' and pointers"),
        ({"$ref": "#anchor"}, "only '#' and pointers"),
        ({"$ref": "#/$defs/x", "$defs": {"y": {}}}, "points at nothing: '#/$defs/x'"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"not": {}}}}, "'not' at #/$defs/x"),
        ({"$ref": "#/elsewhere", "elsewhere": {"if": {}}}, "'if' at #/elsewhere"),
        ({"type": "string", "format": "binary"}, "format 'binary' at # is not enforced"),
        ({"type": "string", "pattern": "a\\"}, "the pattern 'a\\' at # cannot be enforced: it ends with a backslash"),
        ({"type": "string", "pattern": "[+--]"}, "ambiguous"),
        ({"type": "string", "pattern": "(a"}, "unclosed group"),
        ({"type": "string", "pattern": "\\cA"}, "unrecognized escape"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-ahead"),
        ({"type": "string", "pattern": "(a)\\1"}, "backreferences"),
        ({"type": "string", "pattern": 5}, "pattern"),
        ({"type": "object", "patternProperties": {"(": {}}}, "unclosed group"),
        ({"type": "object", "patternProperties": {"a": A, "b": B}}, "disjoint"),
        ({"type": "wrong"}, "wrong"),
        ({"type": 3}, "type"),
        ({"required": "a"}, "required"),
        ({"properties": []}, "properties"),
        ({"enum": 3}, "enum"),
        ({"anyOf": {}}, "anyOf"),
        ({"type": "string", "minLength": -1}, "minLength"),
        ({"type": "array", "maxItems": 1.5}, "maxItems"),
        ({"type": "number", "minimum": "a"}, "minimum"),
        ({"type": "number", "multipleOf": 0}, "'multipleOf' at # is not above 0"),
        ({"items": {"multipleOf": -3}}, "'multipleOf' at #/items is not above 0"),
        ({"const": 2**53 + 1}, "'const' at # has an integer beyond 2^53"),
        ({"enum": [1, {"a": [-(2**60)]}]}, "'enum' at # has an integer beyond 2^53"),
        ({"type": "integer", "multipleOf": 99_999_989}, "'multipleOf' at # has too many digits"),
        ({"type": "number", "multipleOf": 1.2345678}, "'multipleOf' at # has too many digits"),
        ({"oneOf": [B, {"minLength": 3}]}, "oneOf"),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1}, "min/maxProperties"),
        ({"enum": []}, "nsatisfiable"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum (5) is greater than maximum (3)"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "nsatisfiable"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "no text can fit"),
        ({"description": "x" * MAX_CHARACTERS}, "characters"),
        (chain(MAX_LEVELS), "levels"),
    ],
)
def test_refusals(checker: Masks, schema: Any, words: str) -> None:
    with pytest.raises((SchemaError, UncompiledError), match=re.escape(words)) as caught:
        checker.schema(schema)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_bounds_that_no_double_holds_are_never_passed(checker: Masks, kind: str) -> None:
    low = 2**53 + 1
    for high in (2**60 - 1, 2**60 + 1, 2**62 + 2**10):
        below = checker.schema({"type": kind, "minimum": 0, "maximum": high})
        assert checker.fits(below, str(high - 2**11)) and not checker.fits(below, str(high + 1))
    above = checker.schema({"type": kind, "minimum": low, "maximum": 2**54})
    assert checker.fits(above, str(low + 1)) and not checker.fits(above, str(low - 1))
    assert checker.fits(checker.schema({"const": 2**53}), str(2**53))


def test_options_of_the_compiler_are_not_taken_from_a_schema(checker: Masks) -> None:
    schema = {"x-guidance": {"lenient": True, "whitespace_pattern": "a"}, "type": "object"}
    assert checker.fits(checker.schema(schema), '{ "a" : 1 }')
    with pytest.raises(SchemaError, match="'not'"):
        checker.schema({**schema, "not": {}})


def test_white_space_ends(checker: Masks) -> None:
    constraint = checker.schema({"type": "object"})
    assert checker.fits(constraint, '{\n\t"a" :\r\n 1}')
    assert checker.fits(constraint, "{" + " " * 20 + "}") and not checker.fits(constraint, "{" + " " * 21 + "}")
    assert not checker.fits(constraint, " {}") and not checker.fits(constraint, "{}\n")


def test_the_order_of_definitions_changes_nothing(checker: Masks) -> None:
    definitions = {
        "C": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}, "required": ["b"]},
        "B": {"type": "array", "items": {"$ref": "#/$defs/A"}, "maxItems": 1},
        "A": {"enum": ["x", "y"]},
    }
    for order in ("ABC", "CBA", "BCA"):
        constraint = checker.schema({"$defs": {name: definitions[name] for name in order}, "$ref": "#/$defs/C"})
        for text, fits in (('{"b":["x"]}', True), ('{"b":[]}', True), ('{"b":["z"]}', False), ('{"b":"x"}', False)):
            assert checker.fits(constraint, text) is fits, (order, text)


def test_an_answer_cannot_end_within_a_character_or_a_value(checker: Masks) -> None:
    constraint = checker.schema({"type": "object", "properties": {"a": B}, "required": ["a"]})
    whole = '{"a": "é"}'.encode()
    assert [n for n in range(len(whole) + 1) if checker.fits(constraint, whole[:n])] == [len(whole)]


def test_the_docs_list_what_is_enforced_and_refused() -> None:
    text = DOCS.read_text(encoding="utf-8")

    def listed(heading: str) -> list[str]:
        section = text.split(f"## {heading}\n", 1)[1].split("\n#", 1)[0]
        rows = [line.strip("|").split("|")[0] for line in section.splitlines() if line.startswith("| `")]
        return [name for row in rows for name in re.findall("`([^`]+)`", row)]

    assert sorted(listed("Enforced")) == sorted(ENFORCED)
    assert sorted(listed("Refused")) == sorted(REFUSED)
    formats = text.split("\n| `format` | `date`", 1)[1].split("\n", 1)[0]
    assert set(re.findall("`([^`]+)`", formats)) == {*FORMATS} - {"date"}


def test_json_objects_as_clients_write_them(checker: Masks) -> None:
    """What json_object stands for is any object, whatever is in it."""
    constraint = checker.schema({"type": "object"})
    for value in ({}, {"a": {"b": [1, 2.5e-7, True, None, 'é"\\/\b\u2028😀']}}, {"": "", "a b": [[], {}]}):
        for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
            assert checker.fits(constraint, text), text


def test_schemas_deep_within_each_other(checker: Masks) -> None:
    """Compiling them takes more stack than threads have."""
    nested: Any = A
    for _ in range(100):
        nested = {"type": "array", "items": nested}
    for schema, text in ((chain(MAX_LEVELS - 1000), '"x"'), (nested, "[" * 100 + "1" + "]" * 100)):
        assert checker.fits(checker.schema(schema), text)
