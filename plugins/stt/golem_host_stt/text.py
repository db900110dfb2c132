"""Text tokens as text: SentencePiece pieces, with bytes of characters that come one by one."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from golem_host.api import ModelFileError

END_OF_PADDING = 0
"""The token that says that a word begins next: it is no text, whatever the tokenizer calls it."""
MAX_BYTES = 1 << 26


class Pieces:
    """The bytes that each token stands for; spaces stand before words. Raises `ModelFileError` for a file that is none
    or has more pieces than there are `cards`.
    """

    def __init__(self, path: Path, cards: int, padding: int) -> None:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ModelFileError(path, f"is larger than the {MAX_BYTES} bytes that are read")
            raw = path.read_bytes()
            if not raw:
                raise ModelFileError(path, "is no SentencePiece model: it is empty")
            model = sentencepiece.SentencePieceProcessor(model_proto=raw)  # type: ignore[call-arg]
        except (OSError, RuntimeError) as error:
            raise ModelFileError(path, f"is no SentencePiece model: {error}") from None
        count = model.vocab_size()
        if not 0 < count <= cards:
            raise ModelFileError(path, f"has {count} pieces; the model says {cards} tokens at most")
        self._bytes = [_bytes_of(model, token) for token in range(count)]
        self._silent = {END_OF_PADDING, padding}

    def bytes_of(self, token: int) -> bytes:
        """What a token adds to the text: nothing for pads and control tokens."""
        if token in self._silent or not 0 <= token < len(self._bytes):
            return b""
        return self._bytes[token]

    def text(self, tokens: Iterable[int]) -> str:
        """The text of tokens, without the space that a first word brings."""
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "replace").removeprefix(" ")


def _bytes_of(model: sentencepiece.SentencePieceProcessor, token: int) -> bytes:
    piece: str = model.id_to_piece(token)
    if model.is_byte(token):
        return bytes([int(piece[3:-1], 16)])
    if model.is_control(token) or model.is_unknown(token) or model.is_unused(token):
        return b""
    return piece.replace("▁", " ").encode("utf-8", "replace")


class RunningText:
    """A text that grows token by token; what `add` and `end` give, joined, is `Pieces.text` of all of them."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = False

    def add(self, token: int) -> str:
        """What can be told now; half a character waits for its other half."""
        return self._told(self._decoder.decode(self._pieces.bytes_of(token)))

    def end(self) -> str:
        """What is left."""
        return self._told(self._decoder.decode(b"", True))

    def _told(self, text: str) -> str:
        if text and not self._begun:
            self._begun = True
            return text.removeprefix(" ")
        return text
