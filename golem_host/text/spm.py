"""SentencePiece-style tokenization (`tokenizer.ggml.model` = `llama`): merges by score, bytes for the unknown.

Source: `llm_tokenizer_spm` of llama-vocab.cpp. No normalization beyond the space mark.
"""

from __future__ import annotations

import re
from functools import cached_property

from golem_host.text.merging import merge
from golem_host.text.vocab import Defaults, Vocab
from golem_host.text.words import WordCache
from golem_host.weights import Gguf

SPACE_MARK = "\u2581"
SPACE_MARK_BYTES = SPACE_MARK.encode()
_WORDS = re.compile(f"{SPACE_MARK}+[^{SPACE_MARK}]*|[^{SPACE_MARK}]+")
_MARK_INSIDE = re.compile(b"(?<!\xff)(?<!%b)%b" % (SPACE_MARK_BYTES, SPACE_MARK_BYTES))


class SpmModel:
    """Encodes plain text with the scores of a vocabulary."""

    def __init__(self, gguf: Gguf) -> None:
        self.vocab = Vocab(gguf, Defaults(bos=1, eos=2, unk=0, add_bos=True, add_space_prefix=True))

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; `at_start` when nothing or a special token is before it."""
        if at_start and self.vocab.add_space_prefix:
            text = " " + text
        text = text.replace(" ", SPACE_MARK)
        return self._cache.ids(_WORDS.findall(text) if self._words_are_independent else [text])

    def plain(self, token: bytes) -> bytes:
        """The text of a NORMAL token."""
        return token.replace(SPACE_MARK_BYTES, b" ")

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache(self._word)

    @cached_property
    def _words_are_independent(self) -> bool:
        """Whether no token has a space mark after another character, so that no merge reaches into the next word."""
        return _MARK_INSIDE.search(b"\xff" + b"\xff".join(self.vocab.ids)) is None

    def _word(self, word: str) -> list[int]:
        known, scores = self.vocab.ids, self.vocab.scores

        def cost(left: bytes, right: bytes) -> float | None:
            id = known.get(left + right)
            return None if id is None else -scores[id]

        ids: list[int] = []
        for symbol in merge([character.encode() for character in word], cost):
            id = known.get(symbol)
            if id is not None:
                ids.append(id)
            else:
                ids += byte_fallback(self.vocab, symbol)
        return ids


def byte_fallback(vocab: Vocab, symbol: bytes) -> list[int]:
    """A character that is no token, byte by byte: `<0xXX>`, else the bare byte, else the unknown token, else nothing."""
    ids = []
    for byte in symbol:
        id = vocab.ids.get(b"<0x%02X>" % byte, vocab.ids.get(bytes([byte]), vocab.unk))
        if id is not None:
            ids.append(id)
    return ids
