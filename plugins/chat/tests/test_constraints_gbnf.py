"""GBNF through the mask: exactly the texts a grammar derives, whatever became a lexeme."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constraint_checks import Masks, masks
from golem_host_chat.constraints.gbnf import MAX_CHARACTERS, Alt, Chars, GbnfError, Name, Node, Repeat, Seq, read_gbnf
from golem_host_chat.constraints.lexemes import gbnf_rules
from golem_host_chat.constraints.masking import allows

JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws  # a comment
string ::=
  "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masks]:
    with masks(tmp_path_factory.mktemp("masks")) as made:
        yield made


@pytest.mark.parametrize(
    ("grammar", "fitting", "others"),
    [
        ('root ::= "yes" | "no"', ["yes", "no"], ["", "ye", "yesno", "maybe"]),
        ('root ::= ident "b"\nident ::= [a-z]+', ["ab", "abb", "bb"], ["b", "a"]),
        ('root ::= "(" root ")" | "a" "bd" | "abc" "x"', ["abd", "abcx", "((abd))"], ["abc", "(abd", "abx"]),
        ('root ::= [a-z]{2} "1" "x" root | "ab1" "y"', ["ab1y", "cd1xab1y", "ab1xab1y"], ["ab1x", "cd1y"]),
        ('root ::= root "+" [0-9] | [0-9]', ["1", "1+2", "1+2+3"], ["+1", "1+", "12"]),
        ("root ::= .", ["\n", "é", "😀"], ["", "ab"]),
        ('root ::= "a" ws "b"\nws ::= ([ \\t] ws)?', ["ab", "a b", "a \t b"], ["a", "a c b"]),
        ('root ::= [0-9] ("," root)? | "x"', ["1", "1,2,x", "x"], ["", "1,", "x,1", "12"]),
        ('root ::= (root "+" | "-") [0-9]', ["-1", "-1+2", "-1+2+3"], ["1", "-1+", "-1-2"]),
        ('root ::= "(" root ")" root | ""', ["", "()", "(())()"], ["(", ")("]),
        ('root ::= root | "a"', ["a"], ["", "aa"]),
        ('root ::= "b"? root | "a"', ["a", "ba", "bba"], ["", "b", "ab"]),
        (r'root ::= "\u00e9\x41\U0001F600\n\t\\\"\[\]"', ['éA😀\n\t\\"[]'], ["eA"]),
        (r"root ::= [\u0041-\u0043é\-\]\x5e]+", ["ABCé-]^"], ["D", "["]),
        ("root ::= [^a-y]", ["z", "A", "日"], ["a", "b"]),
        ("root ::= [a&&b~#/]+", ["&~#/ab"], ["c"]),
        ('root ::= "a"{2} "b"{1,2} "c"{0,1} "d"{2,} "e"{,2}', ["aabdd", "aabbcdddee"], ["abdd", "aabd", "aabddeee"]),
        ("root ::= a-b aB a_b\na-b ::= [1]\naB ::= [2]\na_b ::= [3]", ["123"], ["12"]),
        ("root ::= start\nstart ::= answer\nanswer ::= [x]", ["x"], [""]),
        ('root ::= ("a" | ) "b"?', ["", "a", "b", "ab"], ["ba"]),
        ('root ::= (\n  "a" | # one\n  "b"\n) "<|im_end|>"', ["a<|im_end|>"], ["a", "c<|im_end|>"]),
        ('root ::= "x" | "y"\nroot ::= "z"', ["z"], ["x"]),
        ('root ::= ""', [""], ["a"]),
        ('root ::= "a" ("b" endless | "c") endless* \nendless ::= "x" endless', ["ac"], ["ab", "acx"]),
        (JSON, ['{"a":[1,-2.5e3,"x\\u00e9",{}]\n\t,"b" : null}', "{}"], ["[]", '{"a"}', '{"a":01}', '{"a":"\n"}']),
    ],
)
def test_texts(checker: Masks, grammar: str, fitting: list[str], others: list[str]) -> None:
    constraint = checker.gbnf(grammar)
    for text in fitting:
        assert checker.fits(constraint, text), text
    for text in others:
        assert not checker.fits(constraint, text), text


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        ("x ::= [a]", "no rule 'root'"),
        ("root ::= other", "line 1, column 10: there is no rule 'other'"),
        ("root ::= [a", "line 1, column 12: a literal or class is not closed"),
        ('root ::= "a', "not closed"),
        ('root ::= ("a"', "')' was expected"),
        ('root = "a"', "line 1, column 6: '::=' was expected"),
        ('root ::= "a" )', "line 1, column 14: a line break was expected"),
        ('root ::= "a"\n  | "b"', "line 2, column 3: a name was expected"),
        (r'root ::= "\q"', "no such escape"),
        (r'root ::= "\ud800"', "no character"),
        ("root ::= [z-a]", "ends before it begins"),
        ("root ::= []", "has no character"),
        ("root ::= [a]{2001}", "2000 times"),
        ("root ::= [a]{3,2}", "fewer at most"),
        ("root ::= [a]{x}", "a repetition is"),
        ("root ::= " + "(" * 70 + "[a]" + ")" * 70, "nested deeper"),
        ("root ::= <[100]>", "a line break was expected"),
        ("", "no rule 'root'"),
        ('root ::= "a" root', "'root' never ends"),
        ("root ::= [a]" + " " * MAX_CHARACTERS, "characters"),
    ],
)
def test_refusals(grammar: str, words: str) -> None:
    with pytest.raises(GbnfError, match=re.escape(words)):
        gbnf_rules(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= item root | item\nitem ::= [a-z]+ " "?',
        'root ::= root item | item\nitem ::= [a-z]+ " "?',
        'root ::= "a" ws "b" ws\nws ::= ([ \\t\\n] ws)?',
    ],
)
def test_what_only_repeats_itself_is_one_lexeme(grammar: str) -> None:
    assert len(re.findall(r"^L\d+:", gbnf_rules(grammar), re.MULTILINE)) == 1


def test_json_is_followed_by_lexemes() -> None:
    """Strings and numbers are not followed character by character, which takes a thousand times as long."""
    rules = gbnf_rules(JSON).splitlines()
    text = next(line for line in rules if line.startswith("T4: "))  # the rule `string`, as part of a lexeme
    assert r"\u{22}" in text and "{0,}" in text
    assert not any(re.match(r"r\d+: .*/\[", line) for line in rules)


def derives(grammar: Mapping[str, Node], text: str) -> bool:
    """Whether a grammar derives `text`, by trying everything; for texts of a few characters."""

    @cache
    def ends(node: Node, at: int, depth: int) -> frozenset[int]:
        """Where a part that begins at `at` may end. No derivation of a short text needs more depth."""
        if depth > 12:
            return frozenset()
        match node:
            case Chars(chars):
                taken = at < len(text) and any(low <= ord(text[at]) <= high for low, high in chars.ranges)
                return frozenset({at + 1} if taken else ())
            case Name(rule):
                return ends(grammar[rule], at, depth + 1)
            case Alt(options):
                return frozenset().union(*(ends(option, at, depth) for option in options))
            case Seq(parts):
                return after(parts, at, depth)
            case Repeat(part, least, most):
                reached, found = frozenset({at}), frozenset({at} if not least else ())
                for count in range(1, (len(text) + 3 if most is None else most) + 1):
                    reached = frozenset().union(*(ends(part, place, depth) for place in reached))
                    found |= reached if count >= least else frozenset()
                return found

    def after(parts: tuple[Node, ...], at: int, depth: int) -> frozenset[int]:
        places = frozenset({at})
        for part in parts:
            places = frozenset().union(*(ends(part, place, depth) for place in places))
        return places

    return len(text) in ends(Name("root"), 0, 0)


ATOMS = st.sampled_from(['"a"', '"b"', '"ab"', "[ab]", "[^a]", '"ba"', '""', "r", "s", "t", "root"])


@st.composite
def grammars(draw: st.DrawFn) -> str:
    """Three rules and `root` over the letters a and b."""

    def part() -> str:
        return draw(ATOMS) + draw(st.sampled_from(["", "", "", "*", "+", "?", "{2}"]))

    def rule(name: str) -> str:
        options = draw(st.integers(1, 3))
        sequences = [" ".join(part() for _ in range(draw(st.integers(1, 3)))) for _ in range(options)]
        return f"{name} ::= ({' | '.join(sequences)})"

    return "\n".join(rule(name) for name in ("root", "r", "s", "t"))


TEXTS = ["".join(letters) for length in range(4) for letters in product("ab", repeat=length)]


@settings(max_examples=50)
@given(grammars())
def test_random_grammars_derive_what_fits(checker: Masks, grammar: str) -> None:
    tree = read_gbnf(grammar)
    derived = {text for text in TEXTS if derives(tree, text)}
    if not derived:
        return  # nothing fits, or only long texts do: refused, or not looked at
    constraint = checker.gbnf(grammar)
    assert {text for text in TEXTS if checker.fits(constraint, text)} == derived


@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= r0\n" + "\n".join(f'r{i} ::= (r{i + 1} "b")?' for i in range(1900)) + "\nr1900 ::= [ac]",
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1}" for i in range(1900)) + '\nr1900 ::= "a" | "(" root ")"',
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "a"',
        'root ::= "' + "a" * 20_000 + '"',
        "root ::= " + "(" * 20 + '"a"' + ")*" * 20,
        'root ::= root root | "a" | ""',
    ],
    ids=["deep", "chain", "doubling", "long", "nested", "ambiguous"],
)
def test_grammars_made_to_exhaust(checker: Masks, grammar: str) -> None:
    """They are compiled and followed; the first two would take more stack than a thread has."""
    progress = checker.gbnf(grammar).begin()
    mask = progress.allowed()
    assert any(allows(mask, token) for token in range(32 * len(mask)))
