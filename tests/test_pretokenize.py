"""How texts are cut into words: by example, and as `tokenizers` cuts with the checkpoints' own expressions."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from golem_host.text.pretokenize import PRE_TOKENIZERS


@pytest.mark.parametrize(
    ("names", "text", "words"),
    [
        (
            ("llama-bpe", "llama3", "falcon3"),
            "It's 12345 o'Clock\r\n  x!!\n\n y",
            "It|'s| |123|45| o|'Clock|\r\n| | x|!!\n\n| y",
        ),
        (("qwen2", "deepseek-r1-qwen"), "a 123 B'RE", "a| |1|2|3| B|'RE"),
        (("qwen35",), "e\u0301a \u0301", "e\u0301a| \u0301"),
        (("qwen2",), "e\u0301a \u0301", "e|\u0301a| \u0301"),
        (("tekken",), "HelloWorld ABCdef 12/\n/", "Hello|World| ABCdef| |1|2|/\n/"),
        (("gpt-4o", "llama4"), "HelloWorld's 1234", "Hello|World's| |123|4"),
        (("smollm", "starcoder", "command-r", "refact"), "a  12 's'S", "a|  |1|2| '|s|'|S"),
        (("gpt-2",), "a  12 I's 'S\u3000\u3000b", "a| | 12| I|'s| '|S|\u3000|\u3000|b"),
        (("default",), "a+1234 <b>", "a|+|123|4| |<|b|>"),
    ],
)
def test_how_each_rule_cuts(names: tuple[str, ...], text: str, words: str) -> None:
    for name in names:
        assert "|".join(PRE_TOKENIZERS[name].words(text)) == words


@given(text=st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aZ09 \n\r\t's$+/\u0301\u3000")), max_size=40))
def test_no_rule_loses_text(text: str) -> None:
    for name, rule in PRE_TOKENIZERS.items():
        words = rule.words(text)
        assert "".join(words) == text, name
        assert "" not in words or text == ""


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CHECKPOINTS = {
    "llama-bpe": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    ],
    "qwen2": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES],
    "qwen35": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES,
    ],
    "tekken": [
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES,
    ],
    "gpt-4o": [
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES,
    ],
    "smollm": [r"\p{N}", GPT2],
    "gpt-2": [GPT2],
    "seed-coder": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + SPACES,
    ],
    "deepseek-coder": [
        r"[\r\n]",
        r"\s?\p{L}+",
        r"\s?\p{P}+",
        r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}",
    ],
}
"""The expressions of `pre_tokenizer` in each checkpoint's tokenizer.json, applied one after the other."""


def settled(character: str) -> bool:
    """Of the same category in Unicode 3.2 and now: no table is too new or too old for it.

    U+017F is left out: to `(?i:'s)` it is an s, to llama.cpp and here it is not.
    """
    category = unicodedata.category(character)
    return (
        category == unicodedata.ucd_3_2_0.category(character)
        and category not in ("Cn", "Cs", "Co")
        and (character != "\u017f")
    )


CHARACTERS = st.one_of(
    st.characters(max_codepoint=0x7F),
    st.sampled_from("aZ0 \n\r\t's/\u0301\u3000"),
    *[
        st.characters(categories=[category]).filter(settled)
        for category in ("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "P", "S", "Z")
    ],
)


@pytest.mark.parametrize("name", CHECKPOINTS)
@given(text=st.text(alphabet=CHARACTERS, max_size=40))
def test_cuts_as_the_checkpoints_expressions_do(name: str, text: str) -> None:
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in CHECKPOINTS[name]]
    expected = pre_tokenizers.Sequence(splits).pre_tokenize_str(text)
    assert PRE_TOKENIZERS[name].words(text) == [word for word, _ in expected]
