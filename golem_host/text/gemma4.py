"""Gemma 4's tokenizer (`tokenizer.ggml.model` = `gemma4`): BPE over characters, spaces as U+2581, bytes as `<0xXX>`.

Source: the `gemma4` branches of `llm_tokenizer_bpe` in llama-vocab.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from golem_host.text.merging import merge, merge_ranks
from golem_host.text.spacemark import SPACE_MARK, SPACE_MARK_BYTES, word_boundaries
from golem_host.text.vocab import Defaults, Vocab
from golem_host.text.words import WordCache
from golem_host.weights import Gguf

_LINES = re.compile(r"\n+|[^\n]+")


class Gemma4Model:
    """Encodes plain text with the merges of a file."""

    def __init__(self, gguf: Gguf) -> None:
        # BOS is forced: early files say false, and the model is useless without it
        self.vocab = Vocab(gguf, Defaults(), force_bos=True)
        self._merges = gguf.strings("tokenizer.ggml.merges")

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; where it stands makes no difference."""
        lines = _LINES.findall(text.replace(" ", SPACE_MARK))
        return self._cache.ids([word for line in lines for word in self._boundaries.split(line)], self._word)

    def plain(self, token: bytes) -> bytes:
        """The text of a NORMAL token."""
        return token.replace(SPACE_MARK_BYTES, b" ")

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache()

    @cached_property
    def _ranks(self) -> Mapping[bytes, int]:
        return merge_ranks(self._merges)

    @cached_property
    def _boundaries(self) -> re.Pattern[str]:
        return word_boundaries(self._merges)

    def _word(self, word: str) -> list[int]:
        known, ranks = self.vocab.ids, self._ranks
        if word[0] == "\n" and (id := known.get(word.encode())) is not None:
            return [id]
        ids: list[int] = []
        symbols = [character.encode() for character in word]
        for symbol in merge(symbols, lambda left, right: ranks.get(left + b" " + right)):
            id = known.get(symbol)
            if id is not None:
                ids.append(id)
            else:  # a byte the vocabulary lacks is dropped, as llama.cpp does
                bytewise = [known.get(b"<0x%02X>" % byte) for byte in symbol]
                ids += [id for id in bytewise if id is not None]
        return ids
