"""The bar on the server's terminal while a picture is drawn."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from golem_host_krea2.picture import PictureRequest, Progress, Stage

CELLS = 24


class Bar:
    """One line that is written anew; nothing where the log goes to no terminal, which has lines of its own."""

    def __init__(self, request: PictureRequest, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._on = self._stream.isatty()
        self._name = f"{request.width}x{request.height}"
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        """At most five times a second."""
        now = time.monotonic()
        if self._on and now >= self._next:
            self._next = now + 0.2
            full = round(CELLS * progress.fraction)
            bar = "#" * full + "-" * (CELLS - full)
            text = f"{self._name} [{bar}] step {min(progress.step + 1, progress.steps)}/{progress.steps}"
            self._write(f"{text} {progress.stage.value}".ljust(79))

    def close(self, stage: Stage) -> None:
        if self._on:
            self._write(f"{self._name}: {stage.value}".ljust(79) + "\n")

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text)
        self._stream.flush()
