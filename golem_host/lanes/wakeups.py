"""Waking the readers of an event loop from the threads that compute, without holding those up.

A call into an event loop is a system call that lets go of the interpreter: the loop's thread takes it, and the device
thread, in the gap between two passes, waits until the loop has sent what it was woken for. So a thread of its own makes
these calls. Putting something in its queue lets go of nothing: it comes to run when the device thread computes, and
then calls each loop once for all that was posted.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

_posted: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set `event` on `loop` soon (any thread)."""
    _start()
    _posted.put((loop, event))


@cache
def _start() -> None:
    threading.Thread(target=_deliver, name="wakeups", daemon=True).start()


def _deliver() -> None:
    while True:
        _deliver_with(_posted.get())  # in a variable here it would keep the last loop it woke


def _deliver_with(first: tuple[asyncio.AbstractEventLoop, asyncio.Event]) -> None:
    """Deliver `first` and whatever else was posted."""
    due: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {first[0]: [first[1]]}
    while not _posted.empty():  # nobody else takes from it
        loop, event = _posted.get()
        due.setdefault(loop, []).append(event)
    for loop, events in due.items():
        # It may be closed: a device may outlive a server that is being torn down.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, events)


def _set(events: Iterable[asyncio.Event]) -> None:
    for event in events:
        event.set()
