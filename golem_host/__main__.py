"""Where the command begins, also as `python -m golem_host`.

An interrupt while its modules are imported ends it without a word, as later ones do.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

INTERRUPTED = 130
"""The exit code of a command that SIGINT ended."""


def entry() -> NoReturn:
    """The command's process."""
    # Unless whoever started us has interrupts ignored.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    from golem_host import cli

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.entry()


if __name__ == "__main__":
    entry()
