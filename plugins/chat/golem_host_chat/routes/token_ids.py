"""Token ids that come from a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from golem_host.errors import BadRequest
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
