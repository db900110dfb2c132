"""A model's vocabulary as llguidance wants it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from golem_host.text.token_type import TokenType
from golem_host.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_NO_TEXT = (TokenType.CONTROL, TokenType.UNKNOWN)


class UncompiledError(ValueError):
    """A constraint that cannot be enforced; says why."""


class ConstraintVocabulary:
    """Prepared once, when a request first needs it; threads may share it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._prepared: LLTokenizer | None = None
        self._preparing = threading.Lock()

    def prepared(self) -> LLTokenizer:
        """The vocabulary's tree of bytes. Takes about a second for 262,144 tokens the first time.

        Raises `UncompiledError` for one without a token that ends an answer.
        """
        with self._preparing:
            if self._prepared is None:
                self._prepared = self._prepare()
            return self._prepared

    def _prepare(self) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        vocab = self.tokenizer.vocab
        ends = sorted(vocab.end_of_generation)
        if not ends:
            raise UncompiledError("the vocabulary has no token that ends an answer")
        return LLTokenizer(TokenizerWrapper(_Tokens(self.tokenizer)), n_vocab=len(vocab), eos_token=ends)


class _Tokens:
    """What `TokenizerWrapper` reads: every token's bytes, and which tokens are no text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocab = tokenizer.vocab
        self._tokenizer = tokenizer
        self.eos_token_id = min(vocab.end_of_generation)
        self.bos_token_id = vocab.bos
        self.tokens: Sequence[bytes] = list(tokenizer.pieces(special=True))
        silent = set(vocab.end_of_generation)
        for kind in _NO_TEXT:
            silent.update((vocab.types == kind).nonzero()[0].tolist())
        self.special_token_ids = sorted(silent)

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenizer.encode(text.decode("utf-8", "replace"), add_special=False, parse_special=False)
