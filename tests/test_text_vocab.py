"""What a vocabulary says about its tokens: special ids, ends of an answer, corrected types."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.testing.raw_gguf import gguf_bytes
from golem_host.text import TokenType, Vocab
from golem_host.text.vocab import Defaults
from golem_host.weights import GgufError, open_gguf


def vocab(folder: Path, tokens: list[Any], defaults: Defaults | None = None, **keys: Any) -> Vocab:
    """Keys are given without the `tokenizer.ggml.` in front."""
    path = folder / "vocab.gguf"
    path.write_bytes(
        gguf_bytes({"tokenizer.ggml.tokens": tokens} | {f"tokenizer.ggml.{k}": v for k, v in keys.items()})
    )
    return Vocab(open_gguf(path), defaults or Defaults())


def test_tokens_by_id_and_by_bytes(tmp_path: Path) -> None:
    words = vocab(tmp_path, ["a", b"\xff", "", "a"])
    assert len(words) == 4
    assert [words.token(id) for id in range(4)] == [b"a", b"\xff", b"", b"a"]
    assert words.text(1) == "\ufffd"
    assert words.ids == {b"a": 3, b"\xff": 1}
    assert words.scores == [0.0] * 4
    assert [words.type(id) for id in range(4)] == [TokenType.NORMAL] * 4
    for wrong in (-1, 4):
        for ask in (words.token, words.text, words.type):
            with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of 4 tokens"):
                ask(wrong)


def test_types_and_scores(tmp_path: Path) -> None:
    words = vocab(
        tmp_path,
        list("abcdefgh"),
        token_type=np.array([0, 1, 2, 3, 4, 5, 6, 99], np.int32),
        scores=np.array([0, -1, -2, -3, 0.5, 0, 0, 0], np.float32),
    )
    assert [words.type(id).name for id in range(8)] == [
        "UNDEFINED",
        "NORMAL",
        "UNKNOWN",
        "CONTROL",
        "USER_DEFINED",
        "UNUSED",
        "BYTE",
        "UNDEFINED",
    ]
    assert words.scores[:5] == [0, -1, -2, -3, 0.5]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"token_type": np.ones(2, np.int32)}, "'tokenizer.ggml.token_type' has 2 elements for 3 tokens"),
        ({"token_type": np.ones(3, np.float32)}, "'tokenizer.ggml.token_type' is an array of float32"),
        ({"scores": np.ones(2, np.float32)}, "'tokenizer.ggml.scores' has 2 elements for 3 tokens"),
        ({"scores": np.ones(3, np.float64)}, "'tokenizer.ggml.scores' is an array of float64"),
        ({"suppress_tokens": np.ones(3, np.float32)}, "'tokenizer.ggml.suppress_tokens' is an array of float32"),
        ({"add_bos_token": True}, "must begin with BOS, but 'tokenizer.ggml.bos_token_id' is missing"),
        ({"add_eos_token": True}, "must end with EOS, but 'tokenizer.ggml.eos_token_id' is missing"),
        ({"add_bos_token": 1}, "'tokenizer.ggml.add_bos_token': expected true or false"),
        ({"bos_token_id": "<s>"}, "'tokenizer.ggml.bos_token_id': expected an integer"),
    ],
)
def test_refused(tmp_path: Path, keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(GgufError, match=reason.replace(".", r"\.")):
        vocab(tmp_path, ["a", "b", "c"], **keys)


def test_no_tokens(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"'tokenizer\.ggml\.tokens' is empty"):
        vocab(tmp_path, [])


def test_ids_outside_the_vocabulary_count_as_absent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        words = vocab(tmp_path, ["a", "b"], Defaults(bos=1, eos=11), padding_token_id=2**32 - 1, bos_token_id=7)
    assert (words.bos, words.eos, words.pad) == (1, None, None)
    assert "'tokenizer.ggml.padding_token_id' is 4294967295, outside the vocabulary of 2 tokens" in caplog.text
    assert "'tokenizer.ggml.bos_token_id' is 7" in caplog.text


def test_suppressed_ids(tmp_path: Path) -> None:
    assert vocab(tmp_path, ["a", "b"], suppress_tokens=np.array([1, -5, 2, 0], np.int32)).suppressed == (1, 0)
    assert vocab(tmp_path, ["a", "b"]).suppressed == ()


def ends(words: Vocab) -> set[str]:
    return {words.text(id) for id in words.end_of_generation}


def test_two_end_tokens_and_metadata_naming_one(tmp_path: Path) -> None:
    words = vocab(tmp_path, ["x", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"], eos_token_id=1)
    assert ends(words) == {"<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"}
    assert (words.eos, words.eot, words.eom) == (1, 2, 3)


def test_ids_the_file_names_end_an_answer_whatever_their_text(tmp_path: Path) -> None:
    words = vocab(tmp_path, list("abcdefg"), eos_token_id=0, eot_token_id=1, eom_token_id=2, fim_sep_token_id=4)
    assert ends(words) == {"a", "b", "c", "e"}
    assert (words.eot, words.eom) == (1, 2)


def test_tokens_found_by_text_become_control(tmp_path: Path) -> None:
    tokens = [
        "<|im_end|>",
        "<|endoftext|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<|fim_prefix|>",
        "<think>",
    ]
    words = vocab(tmp_path, tokens, token_type=np.full(7, 4, np.int32))
    assert ends(words) == set(tokens[:5])
    assert [words.type(id) for id in range(7)] == [TokenType.CONTROL] * 6 + [TokenType.USER_DEFINED]
    assert words.eot == 0


def test_harmony_end_only_ends_a_section(tmp_path: Path) -> None:
    tokens = ["<|return|>", "<|call|>", "<|end|>", "<|channel|>", "<|message|>"]
    words = vocab(tmp_path, tokens, token_type=np.full(5, 3, np.int32), eos_token_id=0)
    assert ends(words) == {"<|return|>", "<|call|>"}
    assert [words.type(id) for id in (2, 3, 4)] == [TokenType.USER_DEFINED] * 3
    assert ends(vocab(tmp_path, ["<|end|>", "<|return|>"])) == {"<|end|>", "<|return|>"}


def test_gemma4_keeps_the_html_tag(tmp_path: Path) -> None:
    tokens = ["<eos>", "<turn|>", "<|tool_response>", "</s>"]
    words = vocab(tmp_path, tokens, token_type=np.array([3, 3, 4, 3], np.int32), eos_token_id=0)
    assert ends(words) == {"<eos>", "<turn|>", "<|tool_response>"}
    assert [words.type(id) for id in (2, 3)] == [TokenType.CONTROL, TokenType.NORMAL]
    assert ends(vocab(tmp_path, ["</s>"])) == {"</s>"}
