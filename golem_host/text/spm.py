"""SentencePiece-style tokenization (`tokenizer.ggml.model` = `llama`): merges by score, bytes for the unknown.

Source: `llm_tokenizer_spm` of llama-vocab.cpp. No normalization beyond the space mark.
"""

from __future__ import annotations

import re
from functools import cached_property

from golem_host.text.merging import merge
from golem_host.text.spacemark import SPACE_MARK, SPACE_MARK_BYTES, word_boundaries
from golem_host.text.vocab import Defaults, Vocab
from golem_host.text.words import WordCache
from golem_host.weights import Gguf


class SpmModel:
    """Encodes plain text with the scores of a vocabulary."""

    def __init__(self, gguf: Gguf) -> None:
        self.vocab = Vocab(gguf, Defaults(bos=1, eos=2, unk=0, add_bos=True, add_space_prefix=True))

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; `at_start` when nothing or a special token is before it."""
        if at_start and self.vocab.add_space_prefix:
            text = " " + text
        return self._cache.ids(self._boundaries.split(text.replace(" ", SPACE_MARK)), self._word)

    def plain(self, token: bytes) -> bytes:
        """The text of a NORMAL token."""
        return token.replace(SPACE_MARK_BYTES, b" ")

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache()

    @cached_property
    def _boundaries(self) -> re.Pattern[str]:
        return word_boundaries(self.vocab.ids)

    def _word(self, word: str) -> list[int]:
        known, scores = self.vocab.ids, self.vocab.scores

        def cost(left: bytes, right: bytes) -> float | None:
            id = known.get(left + right)
            return None if id is None else -scores[id]

        ids: list[int] = []
        for symbol in merge([character.encode() for character in word], cost):
            id = known.get(symbol)
            if id is None:
                ids += self._bytewise(symbol)
            else:
                ids.append(id)
        return ids

    def _bytewise(self, symbol: bytes) -> list[int]:
        """A character that is no token: for each byte `<0xXX>`, else the bare byte, else the unknown token if any."""
        known, unknown = self.vocab.ids, self.vocab.unk
        ids = [known.get(b"<0x%02X>" % byte, known.get(bytes([byte]), unknown)) for byte in symbol]
        return [id for id in ids if id is not None]
