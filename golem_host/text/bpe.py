"""Byte-level BPE (`tokenizer.ggml.model` = `gpt2`).

Bytes are written in GPT-2's printable alphabet, words come from a pre-tokenizer, merges join by rank. No Unicode
normalization, as in llama.cpp. Source: `llm_tokenizer_bpe` of llama-vocab.cpp and GPT-2's `bytes_to_unicode`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property

from golem_host.text.merging import merge, merge_ranks
from golem_host.text.pretokenize import PRE_TOKENIZERS
from golem_host.text.vocab import Defaults, Vocab
from golem_host.text.words import WordCache
from golem_host.weights import Gguf, GgufError

_log = logging.getLogger(__name__)


def _alphabet() -> list[str]:
    """A printable character for each byte: itself where it is printable, else the next from U+0100 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    characters, substitute = [], 256
    for byte in range(256):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(substitute))
            substitute += 1
    return characters


_CHARACTERS = _alphabet()
_SYMBOLS = [character.encode() for character in _CHARACTERS]
_BYTES = {character: bytes([byte]) for byte, character in enumerate(_CHARACTERS)}


class BpeModel:
    """Encodes plain text with the merges of a file."""

    def __init__(self, gguf: Gguf) -> None:
        name = gguf.string("tokenizer.ggml.pre", None)
        if name is None:
            _log.warning(
                "%s: 'tokenizer.ggml.pre' is missing: texts are split by the default rule and answers may be worse; "
                "a newer conversion of the model names its rule",
                gguf.path,
            )
            name = "default"
        if name not in PRE_TOKENIZERS:
            known = ", ".join(sorted(PRE_TOKENIZERS))
            raise GgufError(gguf.path, f"'tokenizer.ggml.pre' is '{name}', a rule not known here (known are {known})")
        self._rule = PRE_TOKENIZERS[name]
        self.vocab = Vocab(gguf, Defaults(bos=11, eos=11, add_bos=self._rule.add_bos))
        self._merges = gguf.strings("tokenizer.ggml.merges")

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; where it stands makes no difference."""
        return self._cache.ids(self._rule.words(text), self._word)

    def plain(self, token: bytes) -> bytes:
        """The bytes a NORMAL token stands for; characters outside the alphabet stand for themselves."""
        return b"".join(_BYTES.get(char) or char.encode() for char in token.decode("utf-8", "replace"))

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache()

    @cached_property
    def _ranks(self) -> Mapping[bytes, int]:
        return merge_ranks(self._merges)

    def _word(self, word: str) -> list[int]:
        symbols = [_SYMBOLS[byte] for byte in word.encode()]
        known, ranks = self.vocab.ids, self._ranks
        if self._rule.ignore_merges and (id := known.get(b"".join(symbols))) is not None:
            return [id]
        ids: list[int] = []
        for symbol in merge(symbols, lambda left, right: ranks.get(left + b" " + right)):
            id = known.get(symbol)
            if id is not None:
                ids.append(id)
            else:  # a byte the vocabulary lacks is dropped, as llama.cpp does
                ids += [known[bytes([byte])] for byte in symbol if bytes([byte]) in known]
        return ids
