"""Vocabularies of true size with made-up pieces: valid for a tokenizer, of no language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from string import ascii_lowercase

from golem_host.testing.tiny_vocab import CONTROL, NORMAL, Vocabulary, gemma4, vocabulary


def qwen3_vocabulary(size: int) -> Vocabulary:
    """Qwen3's kind (byte-level BPE, its special tokens last): the tiny vocabulary, filled up to `size` tokens."""
    small = vocabulary("qwen3", "bpe")
    end = small.types.index(CONTROL)
    added = list(islice(made_up_pieces(set(small.tokens)), size - len(small)))
    keys = {name: value + len(added) if type(value) is int else value for name, value in small.keys.items()}
    return replace(
        small,
        tokens=small.tokens[:end] + added + small.tokens[end:],
        types=small.types[:end] + [NORMAL] * len(added) + small.types[end:],
        merges=[*(small.merges or ()), *map(_merge, added)],
        keys=keys,
    )


def gemma4_vocabulary(size: int) -> Vocabulary:
    """Gemma 4's kind: the tiny vocabulary, filled up to `size` tokens."""
    small = gemma4()
    return gemma4(list(islice(made_up_pieces(set(small.tokens)), size - len(small))))


def made_up_pieces(taken: set[str]) -> Iterator[str]:
    """Runs of two, three and more letters; the beginnings of each come before it, as merging needs."""
    length = 2
    while True:
        for letters in product(ascii_lowercase, repeat=length):
            piece = "".join(letters)
            if piece not in taken:
                yield piece
        length += 1


def _merge(piece: str) -> str:
    return f"{piece[:-1]} {piece[-1]}"
