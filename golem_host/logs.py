"""Logging of the running host: everything to standard error, as text or as one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys

REQUESTS = "golem_host.requests"
"""The logger of request lines; with `--log-format json` its messages are JSON already."""


class TextFormatter(logging.Formatter):
    """`12:30:01 message`, with the level before a message that is worse than information."""

    def __init__(self) -> None:
        super().__init__(datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno > logging.INFO else ""
        return f"{self.formatTime(record, self.datefmt)} {level}{message_of(record, self)}"


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message"}`; request lines as they are."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == REQUESTS:
            return record.getMessage()
        return json.dumps(
            {
                "time": round(record.created, 3),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": message_of(record, self),
            }
        )


def message_of(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    """The message, with the traceback of a logged exception below it."""
    text = record.getMessage()
    return f"{text}\n{formatter.formatException(record.exc_info)}" if record.exc_info else text


def configure(log_format: str, log_level: str) -> None:
    """Set up the root logger. Other libraries' loggers speak from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("golem_host").setLevel(log_level.upper())
