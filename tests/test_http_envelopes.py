"""Errors in each API's own envelope."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from litestar.exceptions import MethodNotAllowedException, NotFoundException

from golem_host.errors import (
    BadRequest,
    ContextExceeded,
    InternalError,
    ModelFileError,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    RequestError,
    Unauthorized,
)
from golem_host.http.envelopes import error_body
from golem_host.lanes.job import JobCancelled


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (
            "openai",
            {"error": {"message": "no", "type": "not_found_error", "param": "model", "code": "model_not_found"}},
        ),
        ("llama", {"error": {"code": 404, "message": "no", "type": "not_found_error"}}),
        ("ollama", {"error": "no"}),
        ("detail", {"detail": "no"}),
        ("anthropic", {"type": "error", "error": {"type": "not_found_error", "message": "no"}}),
    ],
)
def test_each_dialect(dialect: str, body: dict[str, Any]) -> None:
    assert error_body(NotFound("no", param="model", code="model_not_found"), dialect) == (404, {}, body)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("x"), "invalid_request_error"),
        (ContextExceeded(4097, 4096), "invalid_request_error"),
        (Unauthorized("x"), "authentication_error"),
        (PayloadTooLarge("x"), "request_too_large"),
        (InternalError("x"), "api_error"),
        (Overloaded("x"), "overloaded_error"),
    ],
)
def test_anthropic_has_a_type_for_each_status(error: RequestError, kind: str) -> None:
    assert error_body(error, "anthropic")[2]["error"]["type"] == kind


@pytest.mark.parametrize("dialect", ["openai", "llama"])
def test_a_prompt_that_does_not_fit_tells_both_counts(dialect: str) -> None:
    status, _, body = error_body(ContextExceeded(4097, 4096), dialect)
    error = body["error"]
    assert status == 400
    assert error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (4097, 4096)
    assert error["message"].startswith("request (4097 tokens) exceeds the available context size (4096 tokens)")


def test_an_unknown_exception_is_logged_and_keeps_its_text_inside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        status, headers, body = error_body(ValueError("/secret/path"), "openai")
    assert status == 500 and headers == {"x-should-retry": "false"}
    assert "secret" not in str(body) and "/secret/path" in caplog.text


def test_a_model_file_error_keeps_its_path_inside(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        status, headers, body = error_body(ModelFileError("/secret/x.gguf", "the file is cut short"), "ollama")
    assert (status, headers) == (500, {"x-should-retry": "false"})
    assert body == {"error": "the model file cannot be used: the file is cut short"} and "/secret" in caplog.text


def test_errors_worth_retrying_say_when_and_others_say_not_to() -> None:
    assert error_body(Overloaded("busy", retry_after=3), "openai")[:2] == (503, {"Retry-After": "3"})
    assert error_body(JobCancelled(), "openai")[0] == 503
    assert error_body(InternalError("broken"), "openai")[1] == {"x-should-retry": "false"}


def test_litestars_own_refusals_keep_status_and_headers() -> None:
    assert error_body(NotFoundException(), "openai")[2]["error"]["type"] == "not_found_error"
    status, headers, _ = error_body(MethodNotAllowedException(headers={"allow": "POST"}), "openai")
    assert (status, headers) == (405, {"allow": "POST"})


def test_an_unknown_dialect_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="unknown error dialect 'soap'"):
        error_body(BadRequest("x"), "soap")
