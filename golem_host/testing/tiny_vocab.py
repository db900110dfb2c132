"""Small but real vocabularies for tiny checkpoints: byte-level BPE, SentencePiece with byte fallback, Gemma 4's BPE.

All hold the pieces of a short word list with every prefix a merge passes through, so that encoding walks the same
paths as in a large vocabulary. No torch, no gguf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""Values of `tokenizer.ggml.token_type`."""

WORDS = (
    " the", " of", " and", " to", " in", " is", " that", " for", " it", " with", " was", " on", " as", " are", " you",
    "ing", "ion", "ed", "er", "es", "The", "He", "ello", " world", " a", " b", " c", " (", "):", " =", "  ", "    ",
    "\n\n", "def", " return", "12", "00", " \u043f\u0440\u0438", "\u00e9", "\u4f60\u597d",
)  # fmt: skip

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TURNS = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] }}<end_of_turn>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


TURN_MARKS = (
    "{{ bos_token }}{% for message in messages %}<|turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] }}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)


@dataclass(frozen=True)
class Vocabulary:
    """Pieces with their types; `scores` for SentencePiece, `merges` for BPE; `keys` are further tokenizer metadata."""

    model: str
    tokens: list[str]
    types: list[int]
    scores: list[float] | None = None
    merges: list[str] | None = None
    keys: dict[str, bool | int | str] = field(default_factory=dict)
    chat_template: str = CHATML

    def __len__(self) -> int:
        return len(self.tokens)


def printable_bytes() -> list[str]:
    """The 256 characters byte-level BPE writes bytes with: printable Latin-1 as itself, the others from U+0100 on."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(spare)) for byte in range(256)]


def byte_bpe(pre: str, specials: Sequence[str], visible: Sequence[str] = ()) -> Vocabulary:
    """Byte-level BPE with pre-tokenizer `pre`; `specials` become control tokens, `visible` user-defined ones.

    The first of `specials` is bos and eos.
    """
    alphabet = printable_bytes()
    tokens = list(alphabet)
    merges: list[str] = []
    for word in WORDS:
        symbols = [alphabet[byte] for byte in word.encode()]
        piece = symbols[0]
        for symbol in symbols[1:]:
            if piece + symbol not in tokens:
                tokens.append(piece + symbol)
                merges.append(f"{piece} {symbol}")
            piece += symbol
    types = [NORMAL] * len(tokens) + [CONTROL] * len(specials) + [USER_DEFINED] * len(visible)
    end = len(tokens)
    keys: dict[str, bool | int | str] = {
        "pre": pre,
        "bos_token_id": end,
        "eos_token_id": end,
        "padding_token_id": end,
        "add_bos_token": False,
    }
    return Vocabulary("gpt2", [*tokens, *specials, *visible], types, merges=merges, keys=keys)


def sentencepiece(
    head: Sequence[str], specials: Sequence[str], keys: dict[str, bool | int | str], template: str
) -> Vocabulary:
    """SentencePiece: `head` (pad, bos, eos, unk as the family orders them), byte tokens, words, characters, `specials`.

    Every prefix of a word is a piece, as merging needs.
    """
    tokens = list(head)
    types = [UNKNOWN if token == "<unk>" else CONTROL for token in head]
    scores = [0.0] * len(head)
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [BYTE] * 256
    scores += [0.0] * 256
    pieces: list[str] = []
    for word in WORDS:
        word = word.replace(" ", "\u2581")
        pieces += [word[:end] for end in range(2, len(word) + 1)]
    pieces += (
        [chr(code) for code in range(33, 127)]
        + ["\u2581"]
        + [char for word in WORDS for char in word if ord(char) > 127]
    )
    pieces = list(dict.fromkeys(pieces))
    tokens += pieces
    types += [NORMAL] * len(pieces)
    scores += [-1.0 - rank for rank in range(len(pieces))]
    tokens += specials
    types += [CONTROL] * len(specials)
    scores += [0.0] * len(specials)
    return Vocabulary("llama", tokens, types, scores=scores, keys=keys, chat_template=template)


def gemma4(more: Sequence[str] = ()) -> Vocabulary:
    """Gemma 4's kind: BPE over characters, spaces as U+2581, bytes as `<0xXX>`; `more` pieces come last, each after
    the one that it continues by a character.
    """
    head = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>"]
    octets = [f"<0x{byte:02X}>" for byte in range(256)]
    words = [word.replace(" ", "\u2581") for word in WORDS]
    characters = list(dict.fromkeys(chain("\n\u2581", map(chr, range(33, 127)), *words)))
    prefixes = dict.fromkeys(word[:end] for word in words for end in range(2, len(word) + 1))
    pieces = [*prefixes, *more]
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
    merges = [f"{piece[:-1]} {piece[-1]}" for piece in pieces]
    scores = [0.0] * len(tokens)
    return Vocabulary("gemma4", tokens, types, scores=scores, merges=merges, keys=keys, chat_template=TURN_MARKS)


_PRE = {
    "llama": "smollm",
    "mistral3": "tekken",
    "qwen2": "qwen2",
    "qwen3": "qwen2",
    "qwen3moe": "qwen2",
    "qwen35": "qwen35",
    "qwen35moe": "qwen35",
    "smollm3": "smaug-bpe",
}
"""The pre-tokenizer of the families whose files have byte-level BPE."""


def vocabulary(architecture: str, tokenizer: str) -> Vocabulary:
    """The vocabulary a family's files bring.

    `tokenizer` is "bpe" (SmolLM2 and 3, Ministral 3, Qwen), "spm" (Llama 2, Gemma) or "gemma4".
    """
    if architecture == tokenizer == "gemma4":
        return gemma4()
    if architecture in ("gemma2", "gemma3") and tokenizer == "spm":
        keys: dict[str, bool | int | str] = {
            "pre": "default",
            "padding_token_id": 0,
            "eos_token_id": 1,
            "bos_token_id": 2,
            "unknown_token_id": 3,
            "add_bos_token": True,
            "add_eos_token": False,
            "add_space_prefix": False,
        }
        return sentencepiece(["<pad>", "<eos>", "<bos>", "<unk>"], ["<start_of_turn>", "<end_of_turn>"], keys, TURNS)
    if architecture == "llama" and tokenizer == "spm":
        keys = {
            "pre": "default",
            "unknown_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "add_bos_token": True,
            "add_eos_token": False,
        }
        return sentencepiece(["<unk>", "<s>", "</s>"], ["<|im_start|>", "<|im_end|>"], keys, CHATML)
    pre = _PRE.get(architecture)
    if pre is not None and tokenizer == "bpe":
        visible = () if architecture == "llama" else ("<think>", "</think>", "<tool_call>", "</tool_call>")
        return byte_bpe(pre, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], visible)
    raise ValueError(f"no tiny {tokenizer!r} tokenizer for architecture {architecture!r}")
