"""Unigram tokenization (`tokenizer.ggml.model` = `t5`): the pieces whose scores add up to most (Kudo 2018).

Source: `llm_tokenizer_ugm_session` of llama-vocab.cpp, which follows SentencePiece.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from golem_host.text.charsmap import CharsMap
from golem_host.text.spacemark import SPACE_MARK, SPACE_MARK_BYTES, word_boundaries
from golem_host.text.token_type import TokenType
from golem_host.text.vocab import Defaults, Vocab
from golem_host.text.words import WordCache
from golem_host.weights import Gguf, GgufError

_UNKNOWN_PENALTY = np.float32(10)
_MATCHED = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)


class UnigramModel:
    """Encodes plain text with the scores of a vocabulary, after the file's normalization."""

    def __init__(self, gguf: Gguf) -> None:
        self._path = gguf.path
        self.vocab = Vocab(gguf, Defaults(eos=1, unk=2, pad=0, add_eos=True))
        if self.vocab.unk is None:
            raise GgufError(gguf.path, "'tokenizer.ggml.unknown_token_id' is missing, which this tokenizer needs")
        self._unknown = self.vocab.unk
        self._merge_spaces = gguf.boolean("tokenizer.ggml.remove_extra_whitespaces", False)
        self._charsmap = _charsmap(gguf)

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; where it stands makes no difference."""
        if self._charsmap is not None:
            try:
                text = self._charsmap.normalize(text)
            except ValueError as error:
                raise GgufError(self._path, f"'tokenizer.ggml.precompiled_charsmap': {error}") from None
        words = self._boundaries.split(self._marked(text))
        ids = self._cache.ids(words, self._word)
        return [id for at, id in enumerate(ids) if id != self._unknown or not at or ids[at - 1] != id]

    def plain(self, token: bytes) -> bytes:
        """The text of a NORMAL token."""
        return token.replace(SPACE_MARK_BYTES, b" ")

    def _marked(self, text: str) -> str:
        """The text with its spaces as marks."""
        if self._merge_spaces:
            return "".join([SPACE_MARK + word for word in text.split(" ") if word])
        rest = text.lstrip(" ")
        prefix = SPACE_MARK if rest and self.vocab.add_space_prefix else ""
        return SPACE_MARK * (len(text) - len(rest)) + prefix + rest.replace(" ", SPACE_MARK)

    @cached_property
    def _cache(self) -> WordCache:
        return WordCache()

    @cached_property
    def _boundaries(self) -> re.Pattern[str]:
        return word_boundaries(self.vocab.ids)

    @cached_property
    def _pieces(self) -> dict[str, tuple[int, float]]:
        """Id and score of every piece a text may have; a float32 score is exact in the sums, which are double."""
        types = self.vocab.types
        matched = np.isin(types, _MATCHED).tolist()
        scores = np.where(types == TokenType.USER_DEFINED, 0.0, self.vocab.scores).tolist()
        return {
            token.decode("utf-8", "surrogateescape"): (id, scores[id])
            for token, id in self.vocab.ids.items()
            if matched[id]
        }

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._pieces), default=0)

    @cached_property
    def _unknown_score(self) -> float:
        normal = np.array(self.vocab.scores, np.float32)[self.vocab.types == TokenType.NORMAL]
        return float(np.min(normal, initial=np.finfo(np.float32).max) - _UNKNOWN_PENALTY)

    def _word(self, word: str) -> list[int]:
        """Viterbi over the characters; of equal sums the first found counts."""
        pieces, longest = self._pieces, self._longest
        size = len(word)
        best = [0.0] + [-np.inf] * size
        last: list[tuple[int, int]] = [(0, 0)] * (size + 1)  # id and beginning of the last piece
        for start in range(size):
            so_far = best[start]
            known_character = False
            for end in range(start + 1, min(size, start + longest) + 1):
                piece = pieces.get(word[start:end])
                if piece is None:
                    continue
                known_character = known_character or end == start + 1
                total = so_far + piece[1]
                if total > best[end]:
                    best[end], last[end] = total, (piece[0], start)
            if not known_character:
                total = so_far + self._unknown_score
                if total > best[start + 1]:
                    best[start + 1], last[start + 1] = total, (self._unknown, start)
        ids = []
        at = size
        while at:
            id, at = last[at]
            ids.append(id)
        return ids[::-1]


def _charsmap(gguf: Gguf) -> CharsMap | None:
    key = "tokenizer.ggml.precompiled_charsmap"
    data = gguf.array(key, None)
    if data is None:
        return None
    if data.dtype.name not in ("uint8", "int8"):
        raise GgufError(gguf.path, f"'{key}' is an array of {data.dtype.name}, not of bytes")
    try:
        return CharsMap(data.view(np.uint8))
    except ValueError as error:
        raise GgufError(gguf.path, f"'{key}': {error}") from None
