"""Any text encodes and any list of ids decodes, for any vocabulary that opens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golem_host.testing.raw_gguf import gguf_bytes
from golem_host.testing.tiny import tiny_gguf
from golem_host.text import Tokenizer, tokenizer_from_gguf
from golem_host.weights import GgufError, open_gguf

ANY_TEXT = st.text(
    alphabet=st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from("\u2581 \nĠ<>|")),
    max_size=40,
)


@pytest.fixture(scope="module", params=["bpe", "spm"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    return tokenizer_from_gguf(open_gguf(tiny_gguf(path, "llama", tokenizer=request.param)))


@given(text=ANY_TEXT, add=st.booleans(), parse=st.booleans())
def test_any_text_encodes(tokenizer: Tokenizer, text: str, add: bool, parse: bool) -> None:
    ids = tokenizer.encode(text, add_special=add, parse_special=parse)
    assert all(0 <= id < len(tokenizer.vocab) for id in ids)
    if tokenizer.vocab.add_bos and add:
        assert ids[0] == tokenizer.vocab.bos
    if not parse:  # nothing was lost, but for the space put before it
        expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if tokenizer.vocab.add_space_prefix:
            expected = (" " + expected if text else "").replace("\u2581", " ")
        assert tokenizer.decode(ids).decode() == expected


@given(data=st.data())
def test_any_ids_decode(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(tokenizer.vocab) - 1), max_size=20))
    for special in (False, True):
        assert tokenizer.decode(ids, special=special) == b"".join(tokenizer.piece(id, special=special) for id in ids)


def test_surrogates(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a\ud83d\ude00b") == tokenizer.encode("a😀b")
    for alone in ("\ud83d", "\ude00", "\ude00\ud83d"):
        assert tokenizer.encode(f"a{alone}b") == tokenizer.encode("a" + "\ufffd" * len(alone) + "b")


def test_ids_outside_the_vocabulary(tokenizer: Tokenizer) -> None:
    size = len(tokenizer.vocab)
    for wrong in (-1, size, 2**40):
        with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of {size} tokens"):
            tokenizer.piece(wrong)
        with pytest.raises(ValueError, match=f"token id {wrong}"):
            tokenizer.decode([0, wrong])


def test_unknown_kind(tmp_path: Path) -> None:
    path = tmp_path / "bert.gguf"
    path.write_bytes(gguf_bytes({"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": ["a"]}))
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.model' is 'rwkv', .*known are .*gpt2, llama"):
        tokenizer_from_gguf(open_gguf(path))
    path.write_bytes(gguf_bytes({"tokenizer.ggml.tokens": ["a"]}))
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.model' is missing"):
        tokenizer_from_gguf(open_gguf(path))
    path.write_bytes(
        gguf_bytes({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["a"]})
    )
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.merges' is missing"):
        tokenizer_from_gguf(open_gguf(path))


PIECES = st.one_of(
    st.sampled_from(
        [b"", b"\xff", b"</s>", b"<|end|>", b"<0x41>", b"<0xZZ>", b"\xe2\x96\x81", b"\xe2\x96", b"[", b"]-^\\"]
    ),
    st.text(alphabet="ab \u2581Ġ<", max_size=4).map(str.encode),
    st.binary(max_size=3),
)
FLAGS = ["add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix", "remove_extra_whitespaces"]
IDS = st.one_of(st.none(), st.integers(0, 2**32 - 1), st.integers(0, 20))


@settings(deadline=None)
@given(
    kind=st.sampled_from(["llama", "gpt2", "gemma4", "t5", "bert"]),
    tokens=st.lists(PIECES, min_size=1, max_size=20),
    types=st.lists(st.integers(-1, 8), min_size=20, max_size=20),
    scores=st.lists(st.floats(width=32), min_size=20, max_size=20),
    merges=st.lists(st.one_of(PIECES, st.tuples(PIECES, PIECES).map(b" ".join)), max_size=10),
    ids=st.fixed_dictionaries({name: IDS for name in ("bos", "eos", "unknown", "eot", "fim_pad")}),
    flags=st.dictionaries(st.sampled_from(FLAGS), st.booleans()),
    charsmap=st.one_of(
        st.none(), st.binary(max_size=64).map(lambda data: bytes([len(data) // 2 & 60, 0, 0, 0]) + data)
    ),
    text=ANY_TEXT,
)
def test_any_vocabulary_that_opens(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    tokens: list[bytes],
    types: list[int],
    scores: list[float],
    merges: list[bytes],
    ids: dict[str, int | None],
    flags: dict[str, bool],
    charsmap: bytes | None,
    text: str,
) -> None:
    keys: dict[str, Any] = {
        "model": kind,
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": np.array(types, np.int32),
        "scores": np.array(scores, np.float32),
        "merges": merges,
        **{f"{name}_token_id": id for name, id in ids.items() if id is not None},
        **flags,
    }
    if charsmap is not None:
        keys["precompiled_charsmap"] = np.frombuffer(charsmap, np.uint8)
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    path.write_bytes(gguf_bytes({f"tokenizer.ggml.{key}": value for key, value in keys.items()}))
    try:
        tokenizer = tokenizer_from_gguf(open_gguf(path))
    except GgufError as error:
        assert re.search(r"must (begin|end) with (BOS|EOS|SEP)|unknown_token_id' is missing|charsmap", str(error))
        return
    for parse in (True, False):
        try:
            encoded = tokenizer.encode(text, parse_special=parse)
        except GgufError as error:
            assert "'tokenizer.ggml.precompiled_charsmap': the character map points to" in str(error)
            continue
        assert all(0 <= id < len(tokens) for id in encoded)
    assert all(0 <= id < len(tokens) for id in tokenizer.vocab.end_of_generation)
    for special in (True, False):
        tokenizer.decode(range(len(tokens)), special=special)
