"""Noticing that an event loop stands still."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LOOKS = 25
LOOK_SECONDS = 0.01
"""The loop is blocked when it did not come round between this many looks. Looks are counted and not seconds: a machine
that is busy or paused holds the watcher up as well."""


class LoopWatch:
    """`stood` is where the loop's thread was when it stood still, as a traceback; None when it never did."""

    def __init__(self) -> None:
        self.stood: str | None = None
        self._thread = threading.get_ident()
        self._ticks = 0
        self._over = threading.Event()

    async def _tick(self) -> None:
        while True:
            self._ticks += 1
            await asyncio.sleep(LOOK_SECONDS / 2)

    def _look(self) -> None:
        seen, unchanged = -1, 0
        while not self._over.wait(LOOK_SECONDS):
            unchanged = unchanged + 1 if self._ticks == seen else 0
            seen = self._ticks
            if unchanged == LOOKS and self.stood is None:
                frame = sys._current_frames().get(self._thread)
                self.stood = "".join(traceback.format_stack(frame)[-6:])


@asynccontextmanager
async def watching_loop() -> AsyncIterator[LoopWatch]:
    """Watch the running loop inside the block."""
    watch = LoopWatch()
    ticking = asyncio.create_task(watch._tick())
    looking = threading.Thread(target=watch._look, name="loop watch")
    looking.start()
    try:
        yield watch
    finally:
        watch._over.set()
        looking.join()
        ticking.cancel()
