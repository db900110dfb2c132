"""The three kinds of tokenizers on small vocabularies, against the plainest way to do what they do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.testing.raw_gguf import gguf_bytes
from golem_host.testing.tiny_vocab import printable_bytes
from golem_host.text import Tokenizer, tokenizer_from_gguf
from golem_host.text.merging import merge, merge_ranks
from golem_host.text.pretokenize import PRE_TOKENIZERS
from golem_host.weights import GgufError, open_gguf

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def make(folder: Path, model: str, tokens: list[Any], **keys: Any) -> Tokenizer:
    path = folder / f"{model}.gguf"
    metadata = {"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens}
    path.write_bytes(gguf_bytes(metadata | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}))
    return tokenizer_from_gguf(open_gguf(path))


def merge_plainly(symbols: list[bytes], cost: Callable[[bytes, bytes], float | None]) -> list[bytes]:
    symbols = list(symbols)
    while True:
        prices = [(cost(*symbols[at : at + 2]), at) for at in range(len(symbols) - 1)]
        best = min(((price, at) for price, at in prices if price is not None), default=None)
        if best is None:
            return symbols
        symbols[best[1] : best[1] + 2] = [symbols[best[1]] + symbols[best[1] + 1]]


@given(
    text=st.text(alphabet="abc", max_size=30),
    prices=st.dictionaries(st.text(alphabet="abc", min_size=2, max_size=5), st.integers(0, 6), max_size=30),
)
def test_merging_takes_the_cheapest_leftmost_pair(text: str, prices: dict[str, int]) -> None:
    def cost(left: bytes, right: bytes) -> float | None:
        return prices.get((left + right).decode())

    symbols = [character.encode() for character in text]
    assert merge(symbols, cost) == merge_plainly(symbols, cost)


def test_of_equal_merges_the_first_counts() -> None:
    assert merge_ranks([b"a b", b"b c", b"a b"]) == {b"a b": 0, b"b c": 1}


SPM_TEXT = st.text(alphabet="ab> \n\u2581é😀", max_size=24)


@given(
    pieces=st.lists(
        st.tuples(st.text(alphabet="ab>\u2581\né", min_size=1, max_size=4), st.integers(-5, 0)), min_size=1, max_size=25
    ),
    text=SPM_TEXT,
    prefix=st.booleans(),
)
def test_spm_equals_merging_the_whole_text(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[str, int]], text: str, prefix: bool
) -> None:
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *(piece for piece, _ in pieces)]
    scores = np.array([0] * 259 + [score for _, score in pieces], np.float32)
    types = np.array([2, 3, 3] + [6] * 256 + [1] * len(pieces), np.int32)
    tokenizer = make(
        tmp_path_factory.getbasetemp(), "llama", tokens, scores=scores, token_type=types, add_space_prefix=prefix
    )
    known = {token.encode(): id for id, token in enumerate(tokens)}

    def cost(left: bytes, right: bytes) -> float | None:
        id = known.get(left + right)
        return None if id is None else -float(scores[id])

    marked = (" " + text if prefix and text else text).replace(" ", "\u2581")
    expected: list[int] = []
    for symbol in merge_plainly([character.encode() for character in marked], cost):
        expected += [known[symbol]] if symbol in known else [3 + byte for byte in symbol]
    for _ in range(2):  # the second time from the word cache
        assert tokenizer.encode(text, add_special=False) == expected
    if b"\xe2\x96\x81" in known:  # else the mark itself falls back to bytes, which stay a mark
        assert tokenizer.decode(expected) == marked.replace("\u2581", " ").encode()
    assert tokenizer.encode(text)[0] == 1


def test_merges_that_reach_into_the_next_word(tmp_path: Path) -> None:
    tokens = ["<bos>", ">", "a", "\u2581", "\u2581a", ">\u2581a"]
    scores = np.array([0, -4, -4, -4, -1, -2], np.float32)
    spm = make(tmp_path, "llama", tokens, scores=scores, bos_token_id=0, add_space_prefix=False)
    gemma4 = make(tmp_path, "gemma4", tokens, merges=["\u2581 a", "> \u2581a"], bos_token_id=0)
    for tokenizer in (spm, gemma4):
        assert tokenizer.encode("> a a> a", add_special=False) == [5, 4, 5]


def test_spm_space_prefix_follows_special_tokens(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a"]
    types = np.array([2, 3, 3, 1, 1, 1], np.int32)
    keys: dict[str, Any] = {"token_type": types, "scores": np.array([0, 0, 0, -3, -2, -1], np.float32)}
    prefixed = make(tmp_path, "llama", tokens, **keys)
    assert prefixed.encode("a") == [1, 5]
    assert prefixed.encode("a</s>a<s>") == [1, 5, 2, 5, 1]
    assert prefixed.encode("") == [1]
    assert prefixed.encode("", add_special=False) == []
    plain = make(tmp_path, "llama", tokens, add_space_prefix=False, add_eos_token=True, **keys)
    assert plain.encode("a</s>a") == [1, 4, 2, 4, 2]
    assert plain.encode("a", add_special=False) == [4]


def test_spm_without_byte_tokens(tmp_path: Path) -> None:
    types = np.array([2, 3, 3, 1, 1], np.int32)
    tokenizer = make(
        tmp_path, "llama", ["<unk>", "<s>", "</s>", b"\xc3", "a"], token_type=types, add_space_prefix=False
    )
    assert tokenizer.encode("aéa", add_special=False) == [4, 3, 0, 4]  # the bare byte, the unknown token


ALPHABET = printable_bytes()


def bpe(
    folder: Path, merges: list[str], pre: str | None = "gpt-2", extra: tuple[str, ...] = (), **keys: Any
) -> Tokenizer:
    tokens = [*ALPHABET, *dict.fromkeys(merge.replace(" ", "", 1) for merge in merges), *extra]
    if pre is not None:
        keys["pre"] = pre
    return make(folder, "gpt2", tokens, merges=merges, **keys)


@given(
    merges=st.lists(st.tuples(*[st.text(alphabet="abĠĊ", min_size=1, max_size=3)] * 2).map(" ".join), max_size=20),
    text=st.text(alphabet="ab \né", max_size=20),
)
def test_bpe_equals_merging_each_word(tmp_path_factory: pytest.TempPathFactory, merges: list[str], text: str) -> None:
    tokenizer = bpe(tmp_path_factory.getbasetemp(), merges)
    ranks: Mapping[str, int] = {line: rank for rank, line in reversed(list(enumerate(merges)))}

    def cost(left: bytes, right: bytes) -> float | None:
        return ranks.get(f"{left.decode()} {right.decode()}")

    expected = []
    for word in PRE_TOKENIZERS["gpt-2"].words(text):
        symbols = [ALPHABET[byte].encode() for byte in word.encode()]
        expected += [tokenizer.vocab.ids[symbol] for symbol in merge_plainly(symbols, cost)]
    for _ in range(2):
        assert tokenizer.encode(text) == expected
    assert tokenizer.decode(expected) == text.encode()


def test_bpe_takes_whole_words_where_the_rule_says_so(tmp_path: Path) -> None:
    merges = ["Ġ w", "o r"]
    llama3 = bpe(tmp_path, merges, "llama-bpe", extra=("Ġworld",), bos_token_id=0)
    assert llama3.encode(" world", add_special=False) == [llama3.vocab.ids["Ġworld".encode()]]
    assert llama3.encode(" world")[0] == 0
    gpt2 = bpe(tmp_path, merges, "gpt-2", extra=("Ġworld",))
    assert [gpt2.vocab.text(id) for id in gpt2.encode(" world")] == ["Ġw", "or", "l", "d"]


def test_bpe_drops_bytes_the_vocabulary_lacks(tmp_path: Path) -> None:
    tokenizer = make(tmp_path, "gpt2", ["a", "b", b"\xc4"], merges=["a b"], pre="gpt-2")
    assert tokenizer.encode("ab\x01") == [0, 1, 2]  # "ab" is no token; U+0101, which stands for 01, is c4 81


def test_bpe_decodes_characters_outside_the_alphabet(tmp_path: Path) -> None:
    tokenizer = make(tmp_path, "gpt2", ["Ġ\u200d", b"\xff"], merges=[], pre="gpt-2")
    assert tokenizer.piece(0) == " \u200d".encode()
    assert tokenizer.piece(1) == "\ufffd".encode()


def test_rules_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.pre' is 'nonsense', .*known are .*qwen2"):
        bpe(tmp_path, [], "nonsense")
    with caplog.at_level(logging.WARNING):
        unnamed = bpe(tmp_path, ["1 2"], None)
    assert "'tokenizer.ggml.pre' is missing" in caplog.text
    assert unnamed.encode("12") == [unnamed.vocab.ids[b"12"]]


def test_gemma4_runs_of_newlines_and_byte_tokens(tmp_path: Path) -> None:
    tokens = ["<pad>", "<eos>", "<bos>", "\n", "\n\n\n", "\u2581", "a", "\u2581a", "<0xC3>"]
    types = np.array([3, 3, 3, 1, 1, 1, 1, 1, 6], np.int32)
    tokenizer = make(
        tmp_path, "gemma4", tokens, merges=["\u2581 a"], token_type=types, bos_token_id=2, add_bos_token=False
    )
    assert tokenizer.encode("") == [2]  # whatever the file says
    assert tokenizer.encode(" a\n\n\n\n a", add_special=False) == [7, 3, 3, 3, 3, 7]
    assert tokenizer.encode("a\n\n\na", add_special=False) == [6, 4, 6]
    assert tokenizer.encode("é", add_special=False) == [8]
    assert tokenizer.decode([7, 4, 8]) == b" a\n\n\n\xc3"


@given(
    merges=st.lists(
        st.tuples(*[st.text(alphabet="ab>\u2581\n", min_size=1, max_size=3)] * 2).map(" ".join), max_size=20
    ),
    text=st.text(alphabet="ab> \n", max_size=20),
)
def test_gemma4_equals_merging_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, merges: list[str], text: str
) -> None:
    tokens = ["<bos>", *"ab>\u2581\n", *dict.fromkeys(line.replace(" ", "", 1) for line in merges)]
    tokenizer = make(tmp_path_factory.getbasetemp(), "gemma4", tokens, merges=merges, bos_token_id=0)
    ranks: Mapping[str, int] = {line: rank for rank, line in reversed(list(enumerate(merges)))}

    def cost(left: bytes, right: bytes) -> float | None:
        return ranks.get(f"{left.decode()} {right.decode()}")

    expected = []
    for is_newline, characters in groupby(text.replace(" ", "\u2581"), key=lambda character: character == "\n"):
        run = [character.encode() for character in characters]
        if is_newline and b"".join(run) in tokenizer.vocab.ids:
            run = [b"".join(run)]
        expected += [tokenizer.vocab.ids[symbol] for symbol in merge_plainly(run, cost)]
    assert tokenizer.encode(text, add_special=False) == expected
    assert tokenizer.decode(expected) == text.encode()
