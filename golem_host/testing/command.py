"""Running the real `golem-host` command in a test, on a real port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import TracebackType

START_SECONDS = 120.0
"""How long a line may be waited for; a busy machine imports and loads slowly."""


class Command:
    """A running `golem-host WORDS`. Its output is read by a thread, so that it never blocks on a full pipe.

    `env` is added to this process's environment without its GOLEM_ variables; `python` is the interpreter. As a context
    manager it is terminated at the end and its exit code must be 0.
    """

    def __init__(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        python: str = sys.executable,
    ) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
        self.process = subprocess.Popen(
            # -P: the installed package is meant, not a source tree that the tests may be started in.
            [python, "-P", "-m", "golem_host", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**own, **(env or {})},
            cwd=cwd,
        )
        self.lines: list[str] = []
        self._arrived = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.terminate()
        code = self.end()
        if kind is None:
            assert code == 0, f"ended with {code}:\n{self.output}"

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def url(self) -> str:
        """The address it serves at, once it is ready."""
        return self.wait_for(r"^Ready: (http://\S+)$")[1]

    def wait_for(self, pattern: str, *, after: int = 0) -> re.Match[str]:
        """The first line from number `after` on, past or to come, that matches. AssertionError when none comes."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines[after:])), None)

        with self._arrived:
            self._arrived.wait_for(lambda: found() or self._ended, timeout=START_SECONDS)
            match = found()
        assert match, f"no line matches {pattern!r}:\n{self.output}"
        return match

    def end(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(timeout=START_SECONDS)
        self._reader.join(timeout=START_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._arrived:
                self.lines.append(line.rstrip("\n"))
                self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()
