"""Vocabularies of true size with made-up pieces: valid for a tokenizer, of no language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, product
from string import ascii_lowercase

from golem_host.testing.tiny_vocab import BYTE, CONTROL, NORMAL, UNKNOWN, WORDS, Vocabulary, vocabulary

_TURNS = (
    "{{ bos_token }}{% for message in messages %}<|turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] }}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)


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
    """Gemma 4's kind (BPE over characters, spaces as U+2581, bytes as `<0xXX>`) with `size` tokens."""
    head = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>"]
    octets = [f"<0x{byte:02X}>" for byte in range(256)]
    words = [word.replace(" ", "\u2581") for word in WORDS]
    characters = list(dict.fromkeys(chain("\n\u2581", map(chr, range(33, 127)), *words)))
    prefixes = list(dict.fromkeys(word[:end] for word in words for end in range(2, len(word) + 1)))
    room = size - len(head) - len(octets) - len(characters) - len(prefixes)
    pieces = prefixes + list(islice(made_up_pieces(set(prefixes)), room))
    tokens = head + octets + characters + pieces
    types = [UNKNOWN if token == "<unk>" else CONTROL for token in head]
    types += [BYTE] * len(octets) + [NORMAL] * (len(characters) + len(pieces))
    keys: dict[str, bool | int | str] = {
        "padding_token_id": 0,
        "eos_token_id": head.index("<turn|>"),
        "bos_token_id": 2,
        "unknown_token_id": 3,
        "mask_token_id": 4,
        "add_bos_token": True,
        "add_space_prefix": False,
    }
    scores = [0.0] * len(tokens)
    merges = [_merge(piece) for piece in pieces]
    return Vocabulary("gemma4", tokens, types, scores=scores, merges=merges, keys=keys, chat_template=_TURNS)


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
