"""The texts of a request: strings, or lists of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from golem_host.errors import BadRequest, ContextExceeded
from golem_host_embed.tokens import TextTokens, Tokens

MAX_TEXTS = 2048
"""Texts of one request, OpenAI's limit: more of them come in several requests."""

Input = str | list[int]


class TextTooLong(ContextExceeded):
    """400 with both counts, and which text it is."""

    def __init__(self, where: str, param: str, tokens: Tokens, limit: int) -> None:
        super().__init__(len(tokens), limit)
        count = f"{'' if tokens.whole else 'at least '}{len(tokens)}"
        self.message = f"{where} has {count} tokens, special ones included; the model takes {limit}: cut or split it"
        self.param = param


def read_inputs(value: Any, name: str) -> list[Input]:
    """One text or several: a string, token ids, or a list of those. Raises `BadRequest` naming field `name`."""
    if value is None:
        raise BadRequest(f'"{name}" must be provided', param=name)
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise _wrong(name)
    if not value:
        raise BadRequest(f'"{name}" must not be empty', param=name)
    if all(type(item) is int for item in value):
        return [value]
    require_count(value, name)
    for item in value:
        ids = isinstance(item, list) and bool(item) and all(type(id) is int for id in item)
        if not ids and not isinstance(item, str):
            raise _wrong(name)
    return value


def require_count(values: Sequence[Any], name: str) -> None:
    """Raise `BadRequest` for more texts than a request may have."""
    if len(values) > MAX_TEXTS:
        raise BadRequest(
            f'"{name}" has {len(values)} texts; one request may have {MAX_TEXTS}, send the rest in another', param=name
        )


def tokens_of(inputs: Sequence[Input], tokens: TextTokens, name: str, limit: int) -> list[Tokens]:
    """The inputs as the model reads them; token ids are taken as they are.

    Raises `BadRequest` for ids outside the vocabulary and `TextTooLong` for the first text of more than `limit` tokens.
    """
    spelled = tokens.texts((text for text in inputs if isinstance(text, str)), limit)
    found = []
    for index, given in enumerate(inputs):
        text = next(spelled) if isinstance(given, str) else Tokens(_checked(given, tokens.size, index, name))
        if len(text) > limit:
            raise TextTooLong(f"text {index} of '{name}'" if len(inputs) > 1 else f"'{name}'", name, text, limit)
        found.append(text)
    return found


def _checked(ids: list[int], size: int, index: int, name: str) -> list[int]:
    wrong = next((id for id in ids if not 0 <= id < size), None)
    if wrong is not None:
        raise BadRequest(
            f"text {index} of '{name}': {wrong} is no token id of this model (0 to {size - 1})", param=name
        )
    return ids


def _wrong(name: str) -> BadRequest:
    return BadRequest(
        f"Field '{name}': expected a string, a list of token ids, or a list of strings or of lists of token ids",
        param=name,
    )
