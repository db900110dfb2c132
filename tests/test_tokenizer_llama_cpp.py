"""Token ids of made texts equal llama.cpp's, for every vocabulary it publishes and every pre-tokenizer known here."""

from __future__ import annotations

import struct
import unicodedata
from pathlib import Path

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from golem_host.text import tokenizer_from_gguf
from golem_host.text.pretokenize import PRE_TOKENIZERS
from golem_host.weights import open_gguf
from oracle_client import Oracle

pytestmark = pytest.mark.oracle

VOCABULARIES = [
    "baichuan",
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "nomic-bert-moe",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
]
TEXTS = 400
TEXTS_OF_A_RULE = 100


def settled(character: str) -> bool:
    """Of the same category in Unicode 3.2 and now: no table is too new or too old for it."""
    category = unicodedata.category(character)
    return category == unicodedata.ucd_3_2_0.category(character) and category not in ("Cn", "Cs")


CHARACTERS = st.one_of(
    st.characters(max_codepoint=0x7F),
    st.characters(max_codepoint=0x24F),
    st.characters().filter(settled),
    *[
        st.characters(categories=[category]).filter(settled)
        for category in ("Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S", "Z")
    ],
    st.sampled_from(
        "\u2581 \n\t\u00a0\u3000\u200b\u0301\u0308\u0327e\u00e9\u1e69\u0130\u00df\u017f\ufb01\u2460\uac01\u4f60"
    ),
)
PARTS = st.sampled_from(
    [
        *(
            " the",
            "Hello",
            "HTMLParser",
            "don't",
            "I'LL",
            "'s",
            " 123",
            "4567",
            "  ",
            "   \n",
            "\r\n",
            "\n\n\n",
            "!!\n",
        ),
        *("search_query: ", "unaffable", "//", "\t\t", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>"),
        *("<unk>", "<bos>", "<|turn>", "<turn|>", "<|tool_call>", '<|"|>', "<|begin_of_text|>", "<|eot_id|>"),
        *("<think>", "</think>", "<tool_call>", "[CLS]", "[MASK] ", " <mask>", "<|", "|>"),
    ]
)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Texts that hypothesis makes, the same ones every time: one question to llama.cpp takes them all."""
    made: dict[str, None] = {}

    @seed(20)
    @settings(max_examples=TEXTS, database=None, phases=[Phase.generate])
    @given(st.lists(st.one_of(st.text(alphabet=CHARACTERS, max_size=12), PARTS), max_size=10).map("".join))
    def make(text: str) -> None:
        made[text] = None

    make()
    assert len(made) > TEXTS * 3 // 4
    return list(made)


def check(path: Path, texts: list[str], oracle: Oracle) -> None:
    """All texts, with special tokens and without."""
    tokenizer = tokenizer_from_gguf(open_gguf(path))
    for special in (True, False):
        flags = {"add_special": special, "parse_special": special}
        reply = oracle.llama("tokenize", path, texts=texts, vocab_only=True, **flags)
        for text, ids in zip(texts, reply["tokens"], strict=True):
            assert tokenizer.encode(text, **flags) == ids, ascii(text)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_published_vocabularies(
    llama_source: Path,
    texts: list[str],
    oracle: Oracle,
    name: str,
) -> None:
    path = llama_source / "models" / f"ggml-vocab-{name}.gguf"
    check(path, [served(text, name) for text in texts], oracle)


@pytest.mark.parametrize("rule", PRE_TOKENIZERS)
def test_every_rule(
    llama_source: Path,
    tmp_path: Path,
    texts: list[str],
    oracle: Oracle,
    rule: str,
) -> None:
    """A vocabulary whose file names another rule."""
    path = with_rule(llama_source / "models" / "ggml-vocab-gpt-2.gguf", rule, tmp_path / f"{rule}.gguf")
    check(path, [served(text, rule) for text in texts[:TEXTS_OF_A_RULE]], oracle)


def served(text: str, rule: str) -> str:
    """Without what llama.cpp's version of a checkpoint's expression is known to treat otherwise (pretokenize.py)."""

    def approximated(character: str) -> bool:
        category = unicodedata.category(character)
        if rule in ("tekken", "gpt-4o", "llama4"):
            return category[0] == "M" or (category in ("Lu", "Ll", "Lt") and character > "\x7f")
        return rule in ("deepseek-llm", "deepseek-coder") and category[0] == "Z" and character > "\x7f"

    return "".join(character for character in text if not approximated(character))


def with_rule(vocabulary: Path, rule: str, target: Path) -> Path:
    """A copy of a vocabulary file that names another pre-tokenizer."""
    data = vocabulary.read_bytes()
    key = b"tokenizer.ggml.pre"
    at = data.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    length = struct.unpack_from("<Q", data, at)[0]
    target.write_bytes(data[:at] + struct.pack("<Q", len(rule)) + rule.encode() + data[at + 8 + length :])
    return target
