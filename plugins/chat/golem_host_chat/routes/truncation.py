"""Ollama's `truncate`: a conversation that does not fit loses its oldest turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from golem_host.errors import ContextExceeded

Tokens = Callable[[list[Any]], list[int]]
"""Renders messages into the tokens of their prompt."""


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits, and how many messages were left out for it."""

    tokens: list[int]
    dropped: int


def fit(messages: Sequence[Any], tokens_of: Tokens, *, limit: int, truncate: bool) -> Fitted:
    """The tokens of `messages`, fewer than `limit`.

    With `truncate` whole turns (a user message and what follows it) are left out, the oldest first, as few as will do;
    system messages and the last turn stay. Raises `ContextExceeded` with the count of what could not be shortened.
    """
    messages = list(messages)
    tokens = tokens_of(messages)
    if len(tokens) < limit:
        return Fitted(tokens, 0)
    cuts = _cuts(messages) if truncate else []
    if not cuts:
        raise ContextExceeded(len(tokens), limit)
    tried: dict[int, list[int]] = {}

    def fits(cut: int) -> bool:
        tried[cut] = tokens_of(_kept(messages, cut))
        return len(tried[cut]) < limit

    # Later cuts leave less, so the first that fits is found by halving; rendering each in turn could take minutes.
    place = bisect_left(cuts, True, key=fits)
    if place == len(cuts):
        raise ContextExceeded(len(tried[cuts[-1]]), limit)
    kept = _kept(messages, cuts[place])
    return Fitted(tried[cuts[place]], len(messages) - len(kept))


def _cuts(messages: list[Any]) -> list[int]:
    """Where the kept turns may begin: at each user message but the first thing said."""
    said = [index for index, message in enumerate(messages) if not _is_system(message)]
    return [index for index in said[1:] if messages[index]["role"].lower() == "user"]


def _kept(messages: list[Any], cut: int) -> list[Any]:
    return [message for index, message in enumerate(messages) if index >= cut or _is_system(message)]


def _is_system(message: Any) -> bool:
    return message["role"].lower() in ("system", "developer")
