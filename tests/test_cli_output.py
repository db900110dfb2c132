"""The real command where its output cannot be written, or not in every alphabet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest


def run(*words: str, stdout: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """`golem-host WORDS`, its output going to `stdout` (shell: `>/dev/full`, `>&-`), else caught."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {stdout or ""}', "sh", sys.executable, "-m", "golem_host", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("command", ["models", "config", "plugins"])
def test_a_command_without_output_ends_well(command: str, tmp_path: Path) -> None:
    ended = run(command, stdout=">&-", GOLEM_HOME=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["models", "config", "plugins"])
def test_a_full_disk_under_the_output_is_told(command: str, tmp_path: Path) -> None:
    ended = run(command, stdout=">/dev/full", GOLEM_HOME=str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr.startswith("golem-host: ") and "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes only there")
def test_names_that_the_output_has_no_letters_for_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "模型.gguf").write_bytes(b"not a model")
    (tmp_path / os.fsdecode(b"caf\xe9.gguf")).write_bytes(b"not a model")
    ended = run("models", "--enable", "chat", GOLEM_HOME=str(tmp_path), PYTHONIOENCODING="ascii")
    assert ended.returncode == 0, ended.stderr
    assert "\\u6a21\\u578b" in ended.stdout and "caf\\udce9" in ended.stdout


def test_an_interrupt_while_modules_are_imported_is_quiet(tmp_path: Path) -> None:
    """One that the host imports first sends it, so that it always comes at the same moment."""
    (tmp_path / "pluggy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    for words in (["-c", "from golem_host.__main__ import entry; entry()"], ["-m", "golem_host", "plugins"]):
        # Programs in the background of a shell are started with interrupts ignored.
        reset = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        done = subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True, preexec_fn=reset, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
