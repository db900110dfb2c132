"""Text to token ids and back, for the tokenizer a GGUF file describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from golem_host.text.bpe import BpeModel
from golem_host.text.gemma4 import Gemma4Model
from golem_host.text.special import SpecialTokens
from golem_host.text.spm import SpmModel
from golem_host.text.stripping import stripping_tokens
from golem_host.text.token_type import TokenType
from golem_host.text.unigram import UnigramModel
from golem_host.text.vocab import Vocab
from golem_host.text.wordpiece import WordPieceModel
from golem_host.weights import Gguf, GgufError

PIECES_KEPT = 4096
"""Pieces of tokens that are kept: an answer asks for the same ones again and again, between two passes."""

_BYTE_TOKEN = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


class TokenModel(Protocol):
    """One kind of tokenizer: what it does with text that holds no special tokens."""

    @property
    def vocab(self) -> Vocab: ...

    def encode(self, text: str, at_start: bool) -> list[int]:
        """Ids of a stretch of plain text; `at_start` when nothing or a special token is before it."""
        ...

    def plain(self, token: bytes) -> bytes:
        """The bytes a NORMAL token stands for."""
        ...


TOKEN_MODELS: dict[str, Callable[[Gguf], TokenModel]] = {
    "llama": SpmModel,
    "gpt2": BpeModel,
    "gemma4": Gemma4Model,
    "t5": UnigramModel,
    "bert": WordPieceModel,
}
"""Kinds of tokenizers by `tokenizer.ggml.model`; a further kind is one more entry."""


def tokenizer_from_gguf(gguf: Gguf) -> Tokenizer:
    """The tokenizer of a model file. Raises GgufError for a kind or a rule that is not known."""
    kind = gguf.string("tokenizer.ggml.model")
    if kind not in TOKEN_MODELS:
        known = ", ".join(sorted(TOKEN_MODELS))
        raise GgufError(gguf.path, f"'tokenizer.ggml.model' is '{kind}', which is not known here (known are {known})")
    model = TOKEN_MODELS[kind](gguf)
    return Tokenizer(model, *stripping_tokens(gguf, model.vocab))


class Tokenizer:
    """Encodes and decodes; every text has ids, every list of ids has bytes. Threads may share it."""

    def __init__(self, model: TokenModel, strip_left: frozenset[int], strip_right: frozenset[int]) -> None:
        self.vocab: Vocab = model.vocab
        self._model = model
        self._specials = SpecialTokens(model.vocab, strip_left, strip_right)
        self._pieces: dict[tuple[int, bool], bytes] = {}

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Ids of the text.

        `add_special` puts around it what the file asks for (`Vocab.opening`, `closing`); `parse_special` lets the text
        spell control tokens. A surrogate pair counts as the character it spells, a surrogate alone as U+FFFD.
        """
        ids: list[int] = [*self.vocab.opening] if add_special else []
        at_start = True
        for piece in self._specials.split(_without_surrogates(text), parse_special):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += self._model.encode(piece, at_start)
            at_start = isinstance(piece, int)
        if add_special:
            ids += self.vocab.closing
        return ids

    def piece(self, id: int, *, special: bool = False) -> bytes:
        """What one token adds to the text; perhaps part of a character.

        Control and unknown tokens are nothing unless `special`. Raises ValueError for an id outside the vocabulary.
        """
        known = self._pieces.get((id, special))
        if known is not None:
            return known
        if len(self._pieces) >= PIECES_KEPT:
            self._pieces.clear()
        piece = self._pieces[id, special] = self._piece(id, special)
        return piece

    def pieces(self, *, special: bool = False) -> Iterator[bytes]:
        """What each token of the vocabulary adds to a text, by id."""
        plain, normal = self._model.plain, int(TokenType.NORMAL)
        each = enumerate(zip(self.vocab.types.tolist(), self.vocab.tokens(), strict=True))
        return (plain(token) if kind == normal else self._piece(id, special) for id, (kind, token) in each)

    def _piece(self, id: int, special: bool) -> bytes:
        kind = self.vocab.type(id)
        token = self.vocab.token(id)
        if kind is TokenType.NORMAL:
            return self._model.plain(token)
        if kind is TokenType.USER_DEFINED:
            return token
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN):
            return token if special else b""
        if kind is TokenType.BYTE:
            match = _BYTE_TOKEN.fullmatch(token)
            return bytes([int(match[1], 16)]) if match else self._model.plain(token)
        return b""

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """The pieces of all ids, joined. Raises ValueError for an id outside the vocabulary."""
        return b"".join([self.piece(id, special=special) for id in ids])


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
