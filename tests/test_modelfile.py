"""Modelfiles: what they say as fields, and what is refused with its line."""

from __future__ import annotations

from typing import Any

import pytest

from golem_host.errors import BadRequest
from golem_host.modelfile import MAX_CHARACTERS, read_modelfile

WHOLE = '''# a comment
FROM  smollm2:latest
  parameter temperature 0.5
PARAMETER top_k 40
PARAMETER TOP_K 20
PARAMETER stop "<|end|>"
PARAMETER stop a # b
PARAMETER use_mmap true
SYSTEM first
system """Two
lines with "quotes" and # no comment
"""
TEMPLATE "{{ messages }}"
MESSAGE user Hi
MESSAGE Assistant "Good
day."
LICENSE MIT
License """
Apache"""
'''


def test_what_it_says() -> None:
    assert read_modelfile(WHOLE) == {
        "from": "smollm2:latest",
        "parameters": {"temperature": 0.5, "top_k": 20, "stop": ["<|end|>", "a # b"], "use_mmap": True},
        "system": 'Two\nlines with "quotes" and # no comment\n',
        "template": "{{ messages }}",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Good\nday."}],
        "license": ["MIT", "\nApache"],
    }
    assert read_modelfile(WHOLE.replace("\n", "\r\n"))["from"] == "smollm2:latest"
    assert read_modelfile("FROM a") == {"from": "a", "parameters": {}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("-1", -1), ("1e3", 1000.0), ("7.", 7.0), ("fast", "fast"), ("1" * 30, float("1" * 30)), ('"5"', 5)],
)
def test_values_of_parameters(text: str, value: Any) -> None:
    found = read_modelfile(f"FROM a\nPARAMETER x {text}")["parameters"]["x"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no FROM"),
        ("# FROM a", "it has no FROM"),
        ("FROM a\nFROM b", "line 2: there is a FROM already"),
        ("FROM\nSYSTEM x", "line 1: a value is missing"),
        ("FROM a\n\nBOIL x", "line 3: unknown instruction 'BOIL'"),
        ("FROM a\nADAPTER x", "line 2: ADAPTER is not served"),
        ("FROM a\nREQUIRES 0.14", "line 2: REQUIRES is not served"),
        ('FROM a\nSYSTEM """x"', 'line 2: the text after """ has no end'),
        ('FROM a\nSYSTEM "x" y', 'line 2: something follows the closing "'),
        ("FROM a\nMESSAGE tool x", "line 2: the role is one of system, user, assistant"),
        ("FROM a\nMESSAGE user", "line 2: a value is missing"),
        ("FROM a\nPARAMETER", "line 2: a name is missing"),
        ("FROM a" + " " * MAX_CHARACTERS, "more than"),
    ],
)
def test_what_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_modelfile(text)
    assert words in refused.value.message and refused.value.param == "modelfile"
