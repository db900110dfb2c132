"""A line of progress: rewritten in place on a terminal, now and then a new line elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from golem_host.parsers import show_size


class ProgressLine:
    """`label: 45 MiB of 94 MiB`. `total` in bytes, None when unknown. Use as a context manager."""

    def __init__(self, label: str, total: int | None, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self._stream = stream or sys.stderr
        self._tty = self._stream.isatty()
        self._next = 0.0
        self._last = ""

    def update(self, done: int) -> None:
        """Show `done` bytes, at most five times a second on a terminal and every ten seconds elsewhere."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (0.2 if self._tty else 10.0)
            self._show(f"{show_size(done)} of {show_size(self.total)}" if self.total else show_size(done))

    def _show(self, text: str) -> None:
        line = f"{self.label}: {text}"
        if self._tty:
            self._stream.write("\r" + line.ljust(len(self._last)))
            self._last = line
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self._show("done")
        if self._tty:
            self._stream.write("\n")
            self._stream.flush()
