"""Token ids against llama.cpp's: its published vectors, and ids it gave for the real models."""

from __future__ import annotations

from pathlib import Path

import pytest

from golem_host.text import Tokenizer, tokenizer_from_gguf
from golem_host.weights import open_gguf

VOCABULARIES = [
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
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
]


@pytest.mark.oracle
@pytest.mark.parametrize("name", VOCABULARIES)
def test_published_vectors(llama_source: Path, name: str) -> None:
    path = llama_source / "models" / f"ggml-vocab-{name}.gguf"
    texts = path.with_suffix(".gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = path.with_suffix(".gguf.out").read_text().split("\n")[: len(texts)]
    assert len(texts) > 40
    tokenizer = tokenizer_from_gguf(open_gguf(path))
    for text, line in zip(texts, lines, strict=True):
        ids = tokenizer.encode(text, add_special=False, parse_special=False)
        assert ids == [int(id) for id in line.split()], repr(text)
        if name not in ("bert-bge", "llama-spm", "phi-3"):  # these put spaces before words, the first also lowers them
            assert tokenizer.decode(ids) == text.encode()


TEXTS = [
    "",
    "Hello, y'all! How are you \U0001f601 ?",
    " leading and  double   spaces\n\n\nlines\t\ttabs",
    "3 33 333 3333 3.14",
    "C\u1eeda Vi\u1ec7t, \u1781\u17d2\u1798\u17c2\u179a, \u4f60\u597d\uff0c\u4e16\u754c",
    "<|im_start|>user\nHi<|im_end|>\n",
    "<start_of_turn>user\nHi<end_of_turn>\n<unused7><h1>",
    "don't DON'T I'LL we've",
    "e\u0301 \u200b\u00a0x\u3000y",
    "a > </b> <unk></s>",
]


def ids_of(lines: str) -> list[list[int]]:
    """One list of ids a line; `-` is an empty list, a line indented further goes on with the one before."""
    joined = lines.strip().replace("\n      ", " ").splitlines()
    return [[int(id) for id in line.split() if id != "-"] for line in joined]


SMOLLM2 = ids_of(
    """
    -
    19556 28 329 23 449 17 1073 359 346 40303 219 9148
    2899 284 216 5561 256 5600 1116 198 5110 197 197 100 7366
    35 216 35 35 216 35 35 35 216 35 35 35 35 216 35 30 33 36
    51 25275 251 81 10506 25275 225 100 28 15822 248 219 172 249 236 40478 242 172 249 220 40478 244 28 216
      18645 250 48392 138 12831 7906 240 178 239 230
    1 4093 198 26843 2 198
    44 3738 79 1714 79 20589 46 4093 198 26843 44 486 79 1714 79 20589 46 198 44 419 3447 39 21198 88 33 46
    12420 982 422 2154 23 68 339 23 16421 392 3543
    85 151 219 459 229 15442 104 12109 218 105
    81 2986 22577 82 46 2067 5131 29299 99 46
    """
)
GEMMA3 = ids_of(
    """
    -
    9259 236764 570 236789 712 236888 2088 659 611 170124 2360
    5830 532 138 7902 139 35220 109 8721 255969 39218
    236800 236743 236800 236800 236743 236800 236800 236800 236743 236800 236800 236800 236800 236743 236800
      236761 236770 236812
    236780 29719 33154 236764 236743 70440 237765 238481 237527 236764 43758 237389 236900 12811
    236820 236909 548 236779 3041 111038 2364 107 10979 236820 236909 548 236779 643 111038 107
    105 2364 107 10979 106 107 13 184
    13246 236789 236745 52402 236789 236774 564 236789 2182 692 236789 560
    236744 238288 36504 432 398 236781 465 366 366 236762
    236746 1890 236743 209 236743 3 212
    """
)


def check(tokenizer: Tokenizer, expected: list[list[int]]) -> None:
    for text, ids in zip(TEXTS, expected, strict=True):
        assert tokenizer.encode(text, add_special=False) == ids, repr(text)
        assert tokenizer.decode(ids, special=True) == text.encode()


@pytest.mark.real
def test_smollm2(smollm2_path: Path) -> None:
    tokenizer = tokenizer_from_gguf(open_gguf(smollm2_path))
    check(tokenizer, SMOLLM2)
    assert tokenizer.encode(TEXTS[5]) == SMOLLM2[5]
    plain = [44, 108, 306, 79, 3738, 108, 46, 4093, 198, 26843, 44, 108, 306, 79, 486, 108, 46, 198]
    assert tokenizer.encode(TEXTS[5], parse_special=False) == plain
    assert tokenizer.decode(SMOLLM2[5]) == b"user\nHi\n"
    assert tokenizer.vocab.end_of_generation == {0, 2, 4}


@pytest.mark.real
def test_gemma3(gemma3_path: Path) -> None:
    tokenizer = tokenizer_from_gguf(open_gguf(gemma3_path))
    check(tokenizer, GEMMA3)
    assert tokenizer.encode("") == [2]
    assert tokenizer.encode(TEXTS[1]) == [2, *GEMMA3[1]]
    plain = [236746, 1890, 236743, 209, 655, 4984, 2588, 236751, 236813]
    assert tokenizer.encode(TEXTS[9], parse_special=False) == [2, *plain]
    assert tokenizer.decode(GEMMA3[6]) == b"user\nHi\n<h1>"
    assert tokenizer.vocab.end_of_generation == {1, 106, 212}
    assert (tokenizer.vocab.bos, tokenizer.vocab.eos, tokenizer.vocab.eot) == (2, 1, 106)
