"""The tokenizers of encoders (WordPiece, Unigram) on small vocabularies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.testing.charsmap import charsmap
from golem_host.testing.raw_gguf import gguf_bytes
from golem_host.text import Tokenizer, tokenizer_from_gguf
from golem_host.text.charsmap import CharsMap
from golem_host.weights import GgufError, open_gguf

PAIRS = st.dictionaries(
    st.text(alphabet="aeé́x ", min_size=1, max_size=3), st.text(alphabet="ab é", max_size=3), max_size=8
)


@given(pairs=PAIRS, text=st.text(alphabet="aeé́xb \0\u4f60", max_size=30))
def test_charsmap_replaces_the_longest(pairs: dict[str, str], text: str) -> None:
    expected, at = "", 0
    while at < len(text):
        key = max((key for key in pairs if text.startswith(key, at)), key=len, default=None)
        expected += text[at] if key is None else pairs[key]
        at += 1 if key is None else len(key)
    assert CharsMap(np.frombuffer(charsmap(pairs), np.uint8)).normalize(text) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not fit"),
        (b"\x04\0\0", "does not fit"),
        (b"\x08\0\0\0" + bytes(8), "does not fit"),
        (b"\x03\0\0\0" + bytes(8), "does not fit"),
    ],
)
def test_charsmap_that_is_cut_off(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        CharsMap(np.frombuffer(data, np.uint8))


def test_charsmap_that_points_outside() -> None:
    data = bytearray(charsmap({"é": "e"}))
    data[4:8] = (0xFFFFFF << 10 & 0xFFFFFFFF).to_bytes(4, "little")
    with pytest.raises(ValueError, match="points to unit"):
        CharsMap(np.frombuffer(bytes(data), np.uint8)).normalize("é")
    with pytest.raises(ValueError, match="points to replacement 0, which is not there"):
        CharsMap(np.frombuffer(charsmap({"é": "e"})[:-1] + b"e", np.uint8)).normalize("é")


def make(folder: Path, model: str, tokens: list[str], **keys: Any) -> Tokenizer:
    path = folder / f"{model}.gguf"
    metadata = {"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens}
    path.write_bytes(gguf_bytes(metadata | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}))
    return tokenizer_from_gguf(open_gguf(path))


def spellings(word: str, known: dict[str, float], unknown: float) -> Iterator[tuple[float, list[str]]]:
    """Every way to spell a word with known pieces and, for characters that are none, unknown ones ("")."""
    if not word:
        yield 0.0, []
    for end in range(1, len(word) + 1):
        piece = word[:end]
        if piece in known or end == 1:
            score = known.get(piece, unknown)
            for rest, pieces in spellings(word[end:], known, unknown):
                yield score + rest, [piece if piece in known else "", *pieces]


@given(
    pieces=st.dictionaries(
        st.text(alphabet="abc\u2581", min_size=1, max_size=4), st.integers(-40, 0), min_size=1, max_size=12
    ),
    text=st.text(alphabet="abc ", max_size=9),
    merged=st.booleans(),
    prefix=st.booleans(),
)
def test_unigram_finds_the_best_spelling(
    tmp_path_factory: pytest.TempPathFactory, pieces: dict[str, int], text: str, merged: bool, prefix: bool
) -> None:
    tokens = ["<s>", "</s>", "<unk>", *pieces]
    scores = {piece: score / 4 for piece, score in pieces.items()}
    tokenizer = make(
        tmp_path_factory.getbasetemp(),
        "t5",
        tokens,
        scores=np.array([0, 0, 0, *scores.values()], np.float32),
        token_type=np.array([3, 3, 2] + [1] * len(pieces), np.int32),
        remove_extra_whitespaces=merged,
        add_space_prefix=prefix,
    )
    marked = text.replace(" ", "\u2581")
    if merged:
        marked = "".join("\u2581" + word for word in text.split())
    elif prefix and text.strip():
        start = len(text) - len(text.lstrip())
        marked = marked[:start] + "\u2581" + marked[start:]
    unknown = min(scores.values()) - 10
    ids = tokenizer.encode(text, add_special=False)
    best = max(score for score, _ in spellings(marked, scores, unknown))
    runs = [pieces for score, pieces in spellings(marked, scores, unknown) if score == best]
    assert ids in [squeezed([tokens.index(piece) if piece else 2 for piece in pieces]) for pieces in runs]
    assert tokenizer.encode(text) == [*ids, 1]


def squeezed(ids: list[int]) -> list[int]:
    return [id for at, id in enumerate(ids) if id != 2 or not at or ids[at - 1] != 2]


def test_unigram_user_defined_and_unused_pieces(tmp_path: Path) -> None:
    tokens = ["<pad>", "</s>", "<unk>", "\u2581", "a", "ab", "b", "[x]"]
    tokenizer = make(
        tmp_path,
        "t5",
        tokens,
        scores=np.array([0, 0, 0, -1, -1, -9, -1, -50], np.float32),
        token_type=np.array([3, 3, 2, 1, 1, 5, 1, 4], np.int32),
        precompiled_charsmap=np.frombuffer(charsmap({"[": "(", "B": "b"}), np.uint8).view(np.int8),
        remove_extra_whitespaces=True,
    )
    assert tokenizer.encode("aB[x] c[", add_special=False) == [3, 4, 6, 7, 3, 2]
    assert tokenizer.decode([3, 4, 6, 7]) == b" ab[x]"


def test_word_pieces(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581un", "aff", "able", "\u2581!", "\u2581a", "\u2581\u4f60"]
    ids: dict[str, Any] = {"unknown_token_id": 1, "bos_token_id": 2, "seperator_token_id": 3}
    types = np.array([3] * 4 + [1] * 6, np.int32)
    tokenizer = make(tmp_path, "bert", tokens, token_type=types, **ids)
    assert tokenizer.encode("Un\u00e1ffable! [SEP]\ta\u200b x unaffab\u4f60") == [2, 4, 5, 6, 7, 3, 8, 1, 1, 9, 3]
    assert tokenizer.encode("") == [2, 3]
    assert tokenizer.encode("a[SEP]", add_special=False, parse_special=False) == [8, 1, 1, 1]
    assert tokenizer.decode([4, 5, 6, 7]) == b" unaffable !"
    assert (tokenizer.vocab.opening, tokenizer.vocab.closing, tokenizer.vocab.joining) == ((2,), (3,), (3,))
    cased = make(tmp_path, "bert", tokens, token_type=types, add_eos_token=True, add_sep_token=False,
                 **{**ids, "eos_token_id": 3, "normalizer.lowercase": False})  # fmt: skip
    assert cased.encode("A un\u00e1ffable") == [2, 1, 1, 3]
    assert cased.vocab.joining == (3,)


def test_missing_special_tokens(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.seperator_token_id' is missing"):
        make(tmp_path, "bert", ["[UNK]"], bos_token_id=0, unknown_token_id=0)
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.unknown_token_id' is missing"):
        make(tmp_path, "t5", ["</s>"], eos_token_id=0)
