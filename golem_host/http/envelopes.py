"""Errors as each API writes them."""

from __future__ import annotations

import logging
from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException

from golem_host.errors import (
    BadRequest,
    InternalError,
    MethodNotAllowed,
    ModelFileError,
    NotFound,
    PayloadTooLarge,
    RequestError,
    Unavailable,
)
from golem_host.http.writing import json_response
from golem_host.lanes.job import JobCancelled

log = logging.getLogger("golem_host.http")

DIALECTS = ("openai", "llama", "ollama", "detail", "anthropic")

_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    500: "api_error",
    503: "overloaded_error",
}
"""By status; others are `invalid_request_error`."""


def error_body(error: BaseException, dialect: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, further headers and body of an error in `dialect`.

    `openai`: `{"error": {message, type, param, code}}`; `llama`: `{"error": {code: status, message, type}}`; both with
    the error's `extra` members; `ollama`: `{"error": text}`; `detail`: `{"detail": text}`; `anthropic`: `{"type":
    "error", "error": {type, message}}` with the type that Anthropic's API has for the status. An exception that is no
    `RequestError` is logged with its traceback and answered 500 without its text.
    """
    known = as_request_error(error)
    if dialect == "openai":
        members = {"message": known.message, "type": known.type, "param": known.param, "code": known.code}
        body: dict[str, Any] = {"error": {**members, **known.extra}}
    elif dialect == "llama":
        body = {"error": {"code": known.status, "message": known.message, "type": known.type, **known.extra}}
    elif dialect == "ollama":
        body = {"error": known.message}
    elif dialect == "detail":
        body = {"detail": known.message}
    elif dialect == "anthropic":
        kind = _ANTHROPIC_TYPES.get(known.status, "invalid_request_error")
        body = {"type": "error", "error": {"type": kind, "message": known.message, **known.extra}}
    else:
        raise ValueError(f"unknown error dialect {dialect!r}; known: {', '.join(DIALECTS)}")
    return known.status, known.headers, body


def error_response(error: BaseException, dialect: str) -> Response[bytes]:
    """The HTTP answer for an error."""
    status, headers, body = error_body(error, dialect)
    return json_response(body, status=status, headers=headers)


def as_request_error(error: BaseException) -> RequestError:
    """The error itself when it is meant for a caller, else what a caller may know of it."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _from_litestar(error)
    if isinstance(error, JobCancelled):
        return Unavailable("the request was cancelled")
    if isinstance(error, ModelFileError):
        log.error("%s", error)
        return InternalError(f"the model file cannot be used: {error.message}")
    log.error("a request failed", exc_info=error)
    return InternalError("internal error: the log of the host has the details")


def _from_litestar(error: HTTPException) -> RequestError:
    kinds = {404: NotFound, 405: MethodNotAllowed, 413: PayloadTooLarge}
    kind = kinds.get(error.status_code, BadRequest)
    return kind(error.detail, headers=dict(error.headers or {}))
