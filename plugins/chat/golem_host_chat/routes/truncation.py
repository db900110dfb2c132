"""Ollama's `truncate`: a conversation that does not fit loses its oldest turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from golem_host.errors import ContextExceeded
from golem_host_chat.routes.chat_prompt import Prompt
from golem_host_chat.routes.context_limit import require_room

PromptOf = Callable[[list[Any]], Prompt]
"""Renders messages into their prompt; may raise `ContextExceeded` for those that cannot fit."""


@dataclass(frozen=True)
class Fitted:
    """A prompt that fits, and how many messages were left out for it."""

    prompt: Prompt
    dropped: int


def fit(messages: Sequence[Any], prompt_of: PromptOf, *, limit: int, truncate: bool) -> Fitted:
    """The prompt of `messages`, of fewer tokens than `limit`.

    With `truncate` whole turns (a user message and what follows it) are left out, the oldest first, as few as will do;
    system messages and the last turn stay. Raises `ContextExceeded` with the count of what could not be shortened.
    """
    messages = list(messages)
    outcomes: dict[int, Prompt | ContextExceeded] = {}

    def fits(cut: int) -> bool:
        outcomes[cut] = _within(prompt_of, _kept(messages, cut), limit)
        return isinstance(outcomes[cut], Prompt)

    cut = 0
    if not fits(0) and truncate and (cuts := _cuts(messages)):
        # Later cuts leave less, so the first that fits is found by halving; rendering each in turn could take minutes.
        cut = cuts[min(bisect_left(cuts, True, key=fits), len(cuts) - 1)]
    outcome = outcomes[cut]
    if isinstance(outcome, ContextExceeded):
        raise outcome
    return Fitted(outcome, len(messages) - len(_kept(messages, cut)))


def _within(prompt_of: PromptOf, messages: list[Any], limit: int) -> Prompt | ContextExceeded:
    try:
        prompt = prompt_of(messages)
        require_room(prompt.tokens, limit)
    except ContextExceeded as error:
        return error
    return prompt


def _cuts(messages: list[Any]) -> list[int]:
    """Where the kept turns may begin: at each user message but the first thing said."""
    said = [index for index, message in enumerate(messages) if not _is_system(message)]
    return [index for index in said[1:] if messages[index]["role"].lower() == "user"]


def _kept(messages: list[Any], cut: int) -> list[Any]:
    if not cut:
        return messages
    return [message for index, message in enumerate(messages) if index >= cut or _is_system(message)]


def _is_system(message: Any) -> bool:
    return message["role"].lower() in ("system", "developer")
