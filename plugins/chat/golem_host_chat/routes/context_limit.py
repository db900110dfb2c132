"""Prompts that do not fit are refused before they queue."""

from __future__ import annotations

from golem_host.errors import ContextExceeded


def require_room(prompt: list[int], limit: int) -> None:
    """Raise `ContextExceeded` unless `prompt` leaves room for a token in `limit` positions."""
    if len(prompt) >= limit:
        raise ContextExceeded(len(prompt), limit)
