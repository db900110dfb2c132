"""A request inside the host: what to compute, a cancel flag, and a mailbox of events with exactly one end.

The device thread posts, an asyncio task reads. Whatever happens (an answer, an error, a client that left, a lane that
is closed) the mailbox ends once; later posts are dropped, so no code path has to ask whether it was first.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from golem_host.lanes.wakeups import wake

Request = TypeVar("Request")

_ids = itertools.count(1)


class End(Enum):
    """How a job ended."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobCancelled(Exception):
    """Raised to whoever still reads a job that was cancelled."""


class Job(Generic[Request]):
    """One unit of work for a lane. All methods may be called from any thread.

    `request` is the plugin's own object. `deadline` (seconds of `time.monotonic`) makes a lane that honours deadlines
    due; None for work that only wants its fair share. `created`, `started`, `ended` are `time.monotonic` seconds.
    """

    def __init__(self, request: Request, *, deadline: float | None = None) -> None:
        self.id = next(_ids)
        self.request = request
        self.deadline = deadline
        self.created = time.monotonic()
        self.started: float | None = None
        self.ended: float | None = None
        self.end: End | None = None
        self.error: BaseException | None = None
        self._result: Any = None
        self._events: deque[Any] = deque()
        self._lock = threading.Lock()
        self._waiter: Callable[[], None] | None = None
        self._discards = False
        self._cancel_requested = False
        self._on_cancel: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """True from the moment `cancel` was called; lanes drop such jobs before their next pass."""
        return self._cancel_requested

    def start(self) -> None:
        """Mark the moment the job left the queue (first call counts)."""
        if self.started is None:
            self.started = time.monotonic()

    @property
    def waited(self) -> float:
        """Seconds it was in the queue, or is so far."""
        return (time.monotonic() if self.started is None else self.started) - self.created

    def emit(self, event: Any) -> None:
        """Post one event; dropped once the job ended or was cancelled, and when its reader waits for the end only."""
        with self._lock:
            if self.end is not None or self._cancel_requested or self._discards:
                return
            self._events.append(event)
            waiter = self._waiter
        if waiter is not None:
            waiter()

    def finish(self, result: Any = None) -> bool:
        """End with a result. True when this call ended the job."""
        return self._close(End.DONE, result, None)

    def fail(self, error: BaseException) -> bool:
        """End with an error, raised to the reader. True when this call ended the job."""
        return self._close(End.FAILED, None, error)

    def cancel(self) -> None:
        """End the job at once for its reader; its lane frees what it holds before the next pass."""
        with self._lock:
            if self.end is not None or self._cancel_requested:
                return
            self._cancel_requested = True
            callbacks = list(self._on_cancel)
        self._close(End.CANCELLED, None, JobCancelled())
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the job is cancelled (at once if it already was): a lane uses it to wake its device."""
        with self._lock:
            if not self._cancel_requested:
                self._on_cancel.append(callback)
                return
        callback()

    def _close(self, end: End, result: Any, error: BaseException | None) -> bool:
        with self._lock:
            if self.end is not None:
                return False
            self.end = end
            self._result = result
            self.error = error
            self.ended = time.monotonic()
            waiter = self._waiter
        if waiter is not None:
            waiter()
        return True

    async def events(self) -> AsyncIterator[Any]:
        """Yield events in the order they were posted; a failure or cancellation is raised after the last."""
        with self._reading() as ready:
            while True:
                ready.clear()
                with self._lock:
                    events = list(self._events)
                    self._events.clear()
                    ended = self.end is not None
                for event in events:
                    yield event
                if ended:
                    break
                if not events:
                    await ready.wait()
        if self.error is not None:
            raise self.error

    async def result(self) -> Any:
        """Wait for the end and return the result; events are discarded. Raises the job's error or `JobCancelled`."""
        with self._reading(end_only=True) as ready:
            while self.end is None:
                await ready.wait()
        if self.error is not None:
            raise self.error
        return self._result

    @contextmanager
    def _reading(self, *, end_only: bool = False) -> Iterator[asyncio.Event]:
        """An event that is set when something was posted, or with `end_only` at the end."""
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._waiter is not None:
                raise RuntimeError(f"job {self.id} already has a reader")
            self._waiter = partial(wake, loop, ready)
            self._discards = end_only
        try:
            yield ready
        finally:
            with self._lock:
                self._waiter = None

    @property
    def value(self) -> Any:
        """The result of a job that ended well (None before)."""
        return self._result
