"""Special tokens found in a text before the rest of it is tokenized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.testing.raw_gguf import gguf_bytes
from golem_host.text.special import SpecialTokens
from golem_host.text.stripping import stripping_tokens
from golem_host.text.vocab import Defaults, Vocab
from golem_host.weights import Gguf, open_gguf

CONTROL, USER_DEFINED, UNKNOWN, NORMAL = 3, 4, 2, 1
TOKENS: list[tuple[str | bytes, int]] = [
    ("<s>", CONTROL),
    ("<s>x", USER_DEFINED),
    ("<unk>", UNKNOWN),
    ("  ", USER_DEFINED),
    ("   ", USER_DEFINED),
    ("plain", NORMAL),
    (b"\xff", CONTROL),
    ("", CONTROL),
    ("é", USER_DEFINED),
    ("xy", USER_DEFINED),
    ("wxyz", USER_DEFINED),
    ("zéé", USER_DEFINED),
]
S, SX, UNK, TWO, THREE, _, _, _, E, XY, WXYZ, ZEE = range(12)


def make(folder: Path, tokens: list[tuple[str | bytes, int]] = TOKENS, **keys: object) -> tuple[Gguf, Vocab]:
    path = folder / "special.gguf"
    types = np.array([kind for _, kind in tokens], np.int32)
    metadata = {"tokenizer.ggml.tokens": [text for text, _ in tokens], "tokenizer.ggml.token_type": types}
    path.write_bytes(gguf_bytes(metadata | {key.replace("__", "."): value for key, value in keys.items()}))
    gguf = open_gguf(path)
    return gguf, Vocab(gguf, Defaults())


@pytest.fixture(scope="module")
def specials(tmp_path_factory: pytest.TempPathFactory) -> SpecialTokens:
    return SpecialTokens(make(tmp_path_factory.mktemp("special"))[1])


@pytest.mark.parametrize(
    ("text", "parsed", "unparsed"),
    [
        ("", [], []),
        ("ab", ["ab"], ["ab"]),
        ("<s>", [S], ["<s>"]),
        ("a<s>b", ["a", S, "b"], ["a<s>b"]),
        ("<s><s>", [S, S], ["<s><s>"]),
        ("a<unk>", ["a", UNK], ["a<unk>"]),
        ("<s>xy", [SX, "y"], [SX, "y"]),  # the longer token first, though another would then fit as well
        ("wxyzéé", ["w", XY, ZEE], ["w", XY, ZEE]),  # length is counted in bytes
        ("wxyzé", [WXYZ, E], [WXYZ, E]),
        ("a plain b", ["a plain b"], ["a plain b"]),
        ("     ", [THREE, TWO], [THREE, TWO]),
        ("    x", [THREE, " x"], [THREE, " x"]),
        ("ééa", [E, E, "a"], [E, E, "a"]),
        ("\udcff", ["\udcff"], ["\udcff"]),
    ],
)
def test_partition(specials: SpecialTokens, text: str, parsed: list[int | str], unparsed: list[int | str]) -> None:
    assert specials.split(text, True) == parsed
    assert specials.split(text, False) == unparsed


@given(parts=st.lists(st.sampled_from([*(t for t, _ in TOKENS if isinstance(t, str)), "a", "<", ">", " ", "s"])))
def test_pieces_join_to_the_text(specials: SpecialTokens, parts: list[str]) -> None:
    text = "".join(parts)
    for parse_special in (True, False):
        pieces = specials.split(text, parse_special)
        assert "".join(piece if isinstance(piece, str) else str(TOKENS[piece][0]) for piece in pieces) == text
        assert "" not in pieces
        assert parse_special or not {S, UNK}.intersection(piece for piece in pieces if isinstance(piece, int))


def split_in_turn(text: str, tokens: list[tuple[str, int, bool, bool]]) -> list[int | str]:
    """The rule word for word: token after token, longest first, each splits what the ones before left as text."""
    pieces: list[int | str] = [text] if text else []
    for spelled, id, left, right in tokens:
        parts: list[int | str] = []
        for piece in pieces:
            rest = piece
            while isinstance(rest, str) and rest:
                before, mark, rest = rest.partition(spelled)
                before = before.rstrip(" \t\n\v\f\r") if mark and left else before
                rest = rest.lstrip(" \t\n\v\f\r") if mark and right else rest
                parts += [part for part in (before, id if mark else "") if part != ""]
            if isinstance(piece, int):
                parts.append(piece)
        pieces = parts
    return pieces


@given(st.data())
def test_all_tokens_at_once_are_found_as_token_after_token(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    spelled = data.draw(st.lists(st.text("ab< \n", min_size=1, max_size=4), unique=True, min_size=1, max_size=6))
    left, right = (data.draw(st.frozensets(st.integers(0, len(spelled) - 1))) for _ in range(2))
    folder = tmp_path_factory.mktemp("turns")
    vocab = make(folder, [(text, USER_DEFINED) for text in spelled])[1]
    text = data.draw(st.text("ab< \n", max_size=40))
    ranked = sorted((-len(word), id, word) for id, word in enumerate(spelled))
    expected = split_in_turn(text, [(word, id, id in left, id in right) for _, id, word in ranked])
    assert SpecialTokens(vocab, left, right).split(text, True) == expected


def test_thousands_of_tokens_with_one_beginning(tmp_path: Path) -> None:
    tokens = [(f"<unused{number}>", CONTROL) for number in range(3000)]
    many = SpecialTokens(make(tmp_path, [*tokens])[1])
    assert many.split("a<unused2999>b<unused1>", True) == ["a", 2999, "b", 1]
    assert many.split("<ul>", True) == ["<ul>"]


def test_whitespace_that_belongs_to_a_token(tmp_path: Path) -> None:
    tokens: list[tuple[str | bytes, int]] = [
        ("<s>", CONTROL),
        ("<|user|>", CONTROL),
        ("</s>", NORMAL),
        ("<unk>", UNKNOWN),
    ]
    gguf, vocab = make(tmp_path, tokens, general__name="Phi-3 mini 4k")
    left, right = stripping_tokens(gguf, vocab)
    assert (left, right) == (frozenset(), {1, 2})
    split = SpecialTokens(vocab, left, right).split
    assert split("a <|user|> \n b<s> c", True) == ["a ", 1, "b", 0, " c"]
    assert split("<|user|>  ", True) == [1]
    assert split("<|user|>\u00a0x", True) == [1, "\u00a0x"]

    gguf, vocab = make(tmp_path, [("<mask>", CONTROL), ("x", NORMAL)], general__architecture="nomic-bert-moe")
    left, right = stripping_tokens(gguf, vocab)
    assert (left, right) == ({0}, frozenset())
    assert SpecialTokens(vocab, left, right).split("a \t<mask> b", True) == ["a", 0, " b"]

    gguf, vocab = make(tmp_path, [("<mask>", CONTROL)], general__architecture="llama")
    assert stripping_tokens(gguf, vocab) == (frozenset(), frozenset())
