"""Every error that reaches a person: a caller over HTTP, or the operator at the terminal.

A :class:`RequestError` carries all that an envelope needs (`golem_host.http.envelopes` writes it in the dialect of the
route); the others end the command with an exit code. Sources: docs/http.md and the status table of llama-server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from golem_host.printable import printable, shortened

LONGEST_REFUSAL = 1000
"""Characters told of what is wrong with a model file: it may quote what the file holds, of any length."""

LONGEST_MESSAGE = 4000
"""Characters of an answer's error, and of its line in the log: a refusal may quote what was sent, of any length."""


class GolemError(Exception):
    """Base of all errors raised on purpose; its text is written for the person who reads it."""


class RequestError(GolemError):
    """A request that is answered with an error.

    `status` is the HTTP status, `type` and `code` the OpenAI envelope's words, `param` the field at fault, `extra`
    further members of the error object (`n_prompt_tokens`), `headers` further response headers. `message` and `param`
    are shortened to `LONGEST_MESSAGE`.
    """

    status = 500
    type = "server_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.message = shortened(message, LONGEST_MESSAGE)
        super().__init__(self.message)
        self.param = None if param is None else shortened(param, LONGEST_MESSAGE)
        self.code = code
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})


class BadRequest(RequestError):
    """400: the request cannot be honoured as written."""

    status = 400
    type = "invalid_request_error"


class Unauthorized(RequestError):
    """401: no known API key."""

    status = 401
    type = "authentication_error"


class Forbidden(RequestError):
    """403: the Host or Origin is not allowed."""

    status = 403
    type = "permission_error"


class NotFound(RequestError):
    """404: no such route or model."""

    status = 404
    type = "not_found_error"


class MethodNotAllowed(RequestError):
    """405: the path exists, the method does not."""

    status = 405
    type = "invalid_request_error"


class PayloadTooLarge(RequestError):
    """413: the body is over the listener's cap."""

    status = 413
    type = "invalid_request_error"


class UnsupportedMediaType(RequestError):
    """415: the strict listener takes JSON only."""

    status = 415
    type = "invalid_request_error"


class Unprocessable(RequestError):
    """422: the body has the right shape, and something in it cannot be answered (laya's routes)."""

    status = 422
    type = "invalid_request_error"


class ContextExceeded(BadRequest):
    """400 with both counts: the prompt does not fit the context (llama-server's body)."""

    type = "exceed_context_size_error"

    def __init__(self, n_prompt_tokens: int, n_ctx: int) -> None:
        super().__init__(
            f"request ({n_prompt_tokens} tokens) exceeds the available context size ({n_ctx} tokens), "
            "try increasing it",
            code="exceed_context_size_error",
            extra={"n_prompt_tokens": n_prompt_tokens, "n_ctx": n_ctx},
        )


class InternalError(RequestError):
    """500 that a retry cannot cure; clients are told so (`x-should-retry: false`)."""

    def __init__(self, message: str, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.headers.setdefault("x-should-retry", "false")


class NotSupported(RequestError):
    """501 of llama-server's routes, for what this server is not started for; clients are told not to retry."""

    status = 501
    type = "not_supported_error"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"x-should-retry": "false"})


class Unavailable(RequestError):
    """503 worth retrying: loading, stopping, or the device failed this pass."""

    status = 503
    type = "unavailable_error"

    def __init__(self, message: str, *, retry_after: int = 1, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.headers.setdefault("Retry-After", str(retry_after))


class DeviceFailed(Unavailable):
    """503: the device failed for good (lost, hung, out of memory). Lanes on it close; the next request loads anew."""


class Overloaded(Unavailable):
    """503: the model's queue is full."""


class OperatorError(GolemError):
    """An error of the command line or of a file the operator named; `exit_code` ends the process."""

    exit_code = 1


class UsageError(OperatorError):
    """Flags, environment or TOML that cannot be understood (exit 2)."""

    exit_code = 2


class PluginError(OperatorError):
    """A plugin that is unknown, named twice, made for another hook API, or fails to import."""


class ModelFileError(OperatorError):
    """A model file that cannot be used: `path` and what is wrong with it."""

    def __init__(self, path: object, message: str) -> None:
        self.path = path
        self.message = printable(message, LONGEST_REFUSAL)
        super().__init__(f"{path}: {self.message}")
