"""Work that calls itself deeper than a thread's usual stack allows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

STACK_BYTES = 256 << 20
"""Reserved, not used: pages are taken as they are touched."""

Result = TypeVar("Result")

_sizing = threading.Lock()


def on_deep_stack(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, called on a thread of its own with a stack of `STACK_BYTES`."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="constraint")
    with _sizing:
        usual = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
