"""Token ids that come from a client, and those of texts that mean something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from golem_host.errors import BadRequest
from golem_host.text.token_type import TokenType
from golem_host.text.tokenizer import Tokenizer


def checked_ids(tokenizer: Tokenizer, ids: Sequence[Any], name: str) -> list[int]:
    """`ids` if each is a token of the vocabulary; raises `BadRequest` naming the first that is not."""
    size = len(tokenizer.vocab)
    for index, token in enumerate(ids):
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < size:
            raise BadRequest(
                f"Field '{name}': {token!r} at place {index} is no token id of this model (0 to {size - 1})", param=name
            )
    return list(ids)


def control_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> frozenset[int]:
    """The control tokens within `texts`, which are no text unless asked for; none that ends an answer."""
    vocab = tokenizer.vocab
    ids = {id for text in texts for id in tokenizer.encode(text, add_special=False)}
    hidden = (TokenType.CONTROL, TokenType.UNKNOWN)
    return frozenset(id for id in ids - vocab.end_of_generation if vocab.type(id) in hidden)
