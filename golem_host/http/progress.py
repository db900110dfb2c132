"""Which requests are in progress, and whether any of them does more than wait for its client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Requests:
    """Counts them; everything runs on the event loop."""

    def __init__(self) -> None:
        self.in_progress = 0
        self._waiting = 0
        self._moved = time.monotonic()

    @contextmanager
    def one(self) -> Iterator[None]:
        """A request is in progress."""
        self.in_progress += 1
        try:
            yield
        finally:
            self.in_progress -= 1
            self._moved = time.monotonic()

    @contextmanager
    def waiting_for_client(self) -> Iterator[None]:
        """It waits until its client sends more of a body, or takes more of an answer."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self._moved = time.monotonic()

    def stalled_since(self) -> float | None:
        """Since when (seconds of `time.monotonic`) no request did anything but wait for its client; None: one does."""
        return self._moved if self.in_progress == self._waiting else None
