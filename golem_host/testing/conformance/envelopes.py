"""Whether an error has the shape of its route's dialect."""

from __future__ import annotations

from typing import Any

import httpx


def envelope_fault(response: httpx.Response, dialect: str) -> str | None:
    """What is wrong with the body of an error (status 4xx or 5xx), None when it is as `dialect` has it."""
    try:
        body = response.json()
    except ValueError:
        return f"the body is no JSON: {response.text[:200]!r}"
    message, wanted = _message(body, dialect)
    if message is None:
        return f"expected {wanted}, got {response.text[:200]}"
    return None if message.strip() else "the message is empty"


def message_of(response: httpx.Response, dialect: str) -> str:
    """The text of an error in that shape."""
    return _message(response.json(), dialect)[0] or ""


def _message(body: Any, dialect: str) -> tuple[str | None, str]:
    """The message of an error, None when it has another shape, and the shape that is wanted."""
    error = body.get("error") if isinstance(body, dict) else None
    members = error if isinstance(error, dict) else {}
    if dialect == "ollama":
        found, wanted = error, '{"error": text}'
    elif dialect == "detail":
        found, wanted = body.get("detail") if isinstance(body, dict) else None, '{"detail": text}'
    elif dialect == "openai":
        complete = {"message", "type", "param", "code"} <= members.keys()
        found, wanted = members.get("message") if complete else None, '{"error": {message, type, param, code}}'
    elif dialect == "llama":
        complete = {"message", "type", "code"} <= members.keys()
        found, wanted = members.get("message") if complete else None, '{"error": {code, message, type}}'
    else:
        typed = isinstance(body, dict) and body.get("type") == "error" and "type" in members
        found, wanted = members.get("message") if typed else None, '{"type": "error", "error": {type, message}}'
    return (found if isinstance(found, str) else None), wanted
