"""Ollama's `truncate`: which turns are left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import ContextExceeded
from golem_host_chat.routes.chat_prompt import Prompt
from golem_host_chat.routes.reading import PLAIN
from golem_host_chat.routes.truncation import fit


def conversation(roles: str, length: int = 10) -> list[dict[str, Any]]:
    """Messages by the first letters of their roles, each of `length` tokens."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "d": "Developer"}
    return [{"role": names[letter], "content": "x" * length, "place": place} for place, letter in enumerate(roles)]


def prompt_of(messages: list[Any]) -> Prompt:
    """Each message is as many tokens as it has characters, and says where it stood."""
    return Prompt([message["place"] for message in messages for _ in message["content"]], PLAIN)


def kept(roles: str, limit: int) -> list[int]:
    fitted = fit(conversation(roles), prompt_of, limit=limit, truncate=True)
    places = sorted(set(fitted.prompt.tokens))
    assert fitted.dropped == len(roles) - len(places)
    assert len(fitted.prompt.tokens) < limit
    return places


@pytest.mark.parametrize(
    ("roles", "limit", "expected"),
    [
        ("uau", 31, [0, 1, 2]),
        ("uau", 30, [2]),
        ("uauau", 41, [2, 3, 4]),
        ("suauau", 40, [0, 5]),
        ("suauau", 41, [0, 3, 4, 5]),
        ("usau", 31, [1, 3]),
        ("duau", 31, [0, 3]),
        ("uatau", 31, [4]),
        ("uauat", 41, [2, 3, 4]),
        ("suuu", 41, [0, 1, 2, 3]),
        ("suuu", 40, [0, 2, 3]),
    ],
)
def test_oldest_turns_go_first(roles: str, limit: int, expected: list[int]) -> None:
    assert kept(roles, limit) == expected


@pytest.mark.parametrize(("roles", "limit", "count"), [("u", 10, 10), ("su", 20, 20), ("uau", 10, 10), ("ua", 20, 20)])
def test_last_turn_must_fit(roles: str, limit: int, count: int) -> None:
    with pytest.raises(ContextExceeded) as caught:
        kept(roles, limit)
    assert caught.value.extra == {"n_prompt_tokens": count, "n_ctx": limit}


def test_nothing_is_left_out_unasked() -> None:
    with pytest.raises(ContextExceeded) as caught:
        fit(conversation("uau"), prompt_of, limit=30, truncate=False)
    assert caught.value.extra == {"n_prompt_tokens": 30, "n_ctx": 30}


def test_few_renderings() -> None:
    calls = 0

    def counting(messages: list[Any]) -> Prompt:
        nonlocal calls
        calls += 1
        return prompt_of(messages)

    fit(conversation("ua" * 2000 + "u"), counting, limit=100, truncate=True)
    assert calls <= 14


def test_renderings_that_give_up_count_as_too_long() -> None:
    def hopeless(messages: list[Any]) -> Prompt:
        if len(messages) > 3:
            raise ContextExceeded(1000, 50)
        return prompt_of(messages)

    assert fit(conversation("ua" * 9 + "u"), hopeless, limit=50, truncate=True).dropped == 16
    with pytest.raises(ContextExceeded) as caught:
        fit(conversation("uaaaa"), hopeless, limit=50, truncate=True)
    assert caught.value.extra["n_prompt_tokens"] == 1000


@given(st.text("suat", min_size=1, max_size=12), st.integers(1, 130))
def test_what_is_kept(roles: str, limit: int) -> None:
    messages = conversation(roles)
    try:
        places = kept(roles, limit)
    except ContextExceeded:
        last_user = roles.rfind("u")
        needed = [place for place, letter in enumerate(roles) if letter == "s" or place >= last_user]
        first_said = next((place for place, letter in enumerate(roles) if letter != "s"), 0)
        if last_user <= first_said:  # nothing can be left out
            needed = list(range(len(roles)))
        assert len(prompt_of([messages[place] for place in needed]).tokens) >= limit
        return
    assert [place for place, letter in enumerate(roles) if letter == "s"] == [p for p in places if roles[p] == "s"]
    said = [place for place in places if roles[place] != "s"]
    if len(places) < len(roles):
        assert roles[said[0]] == "u"
        assert said == [place for place in range(said[0], len(roles)) if roles[place] != "s"]
        # With one turn more it would not have fitted.
        fuller = max(place for place in range(said[0]) if roles[place] == "u" or place == 0)
        more = [message for message in messages if message["place"] >= fuller or message["role"] == "system"]
        assert len(prompt_of(more).tokens) >= limit
