"""A device: the thread that owns everything allocated on it and runs one pass at a time, choosing among its lanes."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from golem_host.devices.choice import FairShare, PolicyError
from golem_host.errors import DeviceFailed, RequestError
from golem_host.lanes.lane import BACKGROUND_SECONDS, LEAST_SECONDS, PASS_SECONDS, SHORT_PASS_SECONDS, Lane

log = logging.getLogger("golem_host.devices")

WIDEST_PASS = 512
"""Columns of the widest pass where a backend has no reason for another number (`widest_pass`)."""


def pass_seconds(lane: Lane, others: Sequence[Lane], busy: Callable[[Lane], bool]) -> float:
    """About how long the next pass of `lane` may take beside the device's other lanes, of which some are `busy`."""
    punctual = any(other.punctual for other in others)
    if not lane.background:
        return SHORT_PASS_SECONDS if punctual else PASS_SECONDS
    wanted = [BACKGROUND_SECONDS if punctual else PASS_SECONDS]
    wanted += [min(other.recent) for other in others if other.recent and not other.background and busy(other)]
    return max(LEAST_SECONDS, min(wanted))


class Device:
    """One thread, its lanes, and the backend that compiles recorded passes for it.

    `make_backend` is called on first use, so that a host without a model of that kind imports nothing for it.
    `log_passes` writes one line a pass (`--debug-batches`).
    """

    def __init__(self, name: str, make_backend: Callable[[], Any], *, log_passes: bool = False) -> None:
        self.name = name
        self._make_backend = make_backend
        self._backend: Any = None
        self._making = threading.Lock()
        self._log_passes = log_passes
        self.on_failure: Callable[[list[Lane]], None] = lambda lanes: None
        """Called on the device thread with the lanes that a failure of the device took with it."""
        self._changed = threading.Condition()
        self._shares = FairShare()
        self._lanes: list[Lane] = []
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._wanted = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name=f"device {name}", daemon=True)

    @property
    def backend(self) -> Any:
        """Compiles recordings into programs and allocates on the device (see `golem_host.ops.recording`).

        Made on first use, and again when it says that the device was `lost`.
        """
        with self._making:
            if self._backend is None or getattr(self._backend, "lost", False):
                self._backend = self._make_backend()
            return self._backend

    @property
    def lanes(self) -> list[Lane]:
        return list(self._lanes)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the running pass and end the thread; lanes still attached are closed."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()
        for lane in self.lanes:
            lane.close()
        while self._calls:
            self._calls.popleft()[1].cancel()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Run `call` on the device thread between two passes; its result or exception is the future's."""
        future: Future[Any] = Future()
        with self._changed:
            if self._stopping:
                raise RuntimeError(f"device {self.name} has stopped")
            self._calls.append((call, future))
            self._wanted += 1
            self._changed.notify()
        return future

    def attach(self, lane: Lane) -> None:
        """Take a lane: from now on it gets passes."""

        def add() -> None:
            self._lanes.append(lane)
            self._shares.add(lane)
            lane.attach(self._wake)

        self.submit(add).result()

    def detach(self, lane: Lane, error: RequestError | None = None) -> None:
        """Give a lane up: waits for the running pass, then closes the lane (its jobs fail with `error`)."""

        def remove() -> None:
            if lane in self._lanes:
                self._lanes.remove(lane)
            self._shares.remove(lane)
            lane.close(error)

        self.submit(remove).result()

    def alive(self, lane: Lane, timeout: float) -> bool:
        """Whether the lane can answer: not failed, and the device comes round to a no-op within `timeout` seconds."""
        try:
            return self.submit(lambda: lane in self._lanes and lane.failed is None).result(timeout)
        except (TimeoutError, RuntimeError):
            return False

    def _wake(self) -> None:
        with self._changed:
            self._wanted += 1
            self._changed.notify()

    def _loop(self) -> None:
        while True:
            with self._changed:
                seen = self._wanted
                calls = list(self._calls)
                self._calls.clear()
                if self._stopping and not calls:
                    return
            while calls:  # emptied: a thread that waits must not keep the last lane it gave up
                self._call(*calls.pop(0))
            now = time.monotonic()
            try:
                lane, later = self._shares.choose(now)
            except PolicyError as broken:
                self._close_broken(broken.lane, broken.error)
                continue
            if lane is not None:
                self._run(lane, now)
                continue
            with self._changed:
                if self._wanted == seen and not self._stopping:
                    self._changed.wait(None if later is None else max(0.0, later - time.monotonic()))

    def _call(self, call: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    def _run(self, lane: Lane, now: float) -> None:
        others = [other for other in self._lanes if other is not lane]
        lane.pass_seconds = pass_seconds(lane, others, self._shares.busy)
        try:
            lane.run(now)
        except Exception as error:
            self._close_broken(lane, error)
            return
        seconds = time.monotonic() - now
        self._shares.charge(lane, seconds)
        if isinstance(lane.failed, DeviceFailed):
            self._device_failed(lane.failed)
        if self._log_passes:
            log.info("pass %s: %s in %.1f ms", lane.name, lane.pass_note(), seconds * 1e3)

    def _close_broken(self, lane: Lane, error: Exception) -> None:
        """A policy that raises can no longer be trusted to end its jobs: end them, and give the lane up."""
        log.error("%s: the lane failed and is closed", lane.name, exc_info=error)
        lane.failed = error
        self._lanes.remove(lane)
        self._shares.remove(lane)
        lane.close()

    def _device_failed(self, error: DeviceFailed) -> None:
        """Give up the lanes that cannot go on: those whose pass failed, and all of them when the device was lost."""
        lost = getattr(self._backend, "lost", False)
        for lane in self._lanes:
            if lost and lane.failed is None:
                lane.lose_device(error)
        given_up = [lane for lane in self._lanes if isinstance(lane.failed, DeviceFailed)]
        for lane in given_up:
            self._lanes.remove(lane)
            self._shares.remove(lane)
        self.on_failure(given_up)
