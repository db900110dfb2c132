"""Prompts that do not fit are refused before they queue, and hopeless ones before they are tokenized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from golem_host.errors import BadRequest, ContextExceeded

if TYPE_CHECKING:
    from golem_host.text.tokenizer import Tokenizer

ALWAYS_TOKENIZED = 65536
"""Characters that are quickly tokenized; a longer text is first compared with the longest token."""

MAX_CHARACTERS = 1 << 22
"""Of a text whose tokens are only counted or listed: seconds of work at worst, which no client that leaves stops."""


class TextExceeds(ContextExceeded):
    """The text is so long that even the longest tokens could not make it fit; the count is the least it could be."""

    def __init__(self, least: int, limit: int) -> None:
        super().__init__(least, limit)
        self.message = self.message.replace("request (", "request (at least ")


def require_room(prompt: list[int], limit: int) -> None:
    """Raise `ContextExceeded` unless `prompt` leaves room for a token in `limit` positions."""
    if len(prompt) >= limit:
        raise ContextExceeded(len(prompt), limit)


def encode_within(tokenizer: Tokenizer, text: str, limit: int, *, add_special: bool = True) -> list[int]:
    """Token ids of `text`, special tokens parsed. Raises `TextExceeds` when they cannot be fewer than `limit`."""
    if len(text) > ALWAYS_TOKENIZED:
        # A token stands for at most as many characters as its spelling has bytes.
        least = len(text) // max(map(len, tokenizer.vocab.ids))
        if least >= limit:
            raise TextExceeds(least, limit)
    return tokenizer.encode(text, add_special=add_special)


def tokenizable(text: str, name: str) -> str:
    """`text`, for routes without a context. Raises `BadRequest` naming the field when it is too long to tokenize."""
    if len(text) > MAX_CHARACTERS:
        raise BadRequest(
            f"Field '{name}': {len(text)} characters are given; at most {MAX_CHARACTERS} are tokenized", param=name
        )
    return text
