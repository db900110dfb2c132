"""What a stream hears: a whole recording, or samples that arrive while it listens."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from golem_host_stt.audio import Samples
from golem_host_stt.checkpoint import Timing
from golem_host_stt.mimi_config import FRAME, FRAME_RATE, SAMPLE_RATE


def silence(samples: int, timing: Timing) -> tuple[int, int]:
    """Samples of silence that the model needs before a recording of so many, and after it: until the last word has come
    out, and the last frame is whole.
    """
    before, after = int(timing.prefix * SAMPLE_RATE), int((timing.delay + 1.0) * SAMPLE_RATE)
    return before, after + -(before + samples + after) % FRAME


class Source(Protocol):
    """Frames for the codec. `take` is called on the device thread."""

    @property
    def waiting(self) -> int:
        """Whole frames that are there."""
        ...

    @property
    def live(self) -> bool:
        """Whether more comes, in its own time."""
        ...

    def take(self, count: int) -> Samples:
        """The next frames (count, 1920); no more than are waiting."""
        ...


class Whole:
    """A recording with the silence around it that the model needs: what it must begin with, and what follows until the
    last word has come out.
    """

    live = False

    def __init__(self, samples: Samples, timing: Timing) -> None:
        before, after = silence(len(samples), timing)
        padded = np.zeros(before + len(samples) + after, np.float32)
        padded[before : before + len(samples)] = samples
        self._frames = padded.reshape(-1, FRAME)
        self._next = 0
        self.seconds = len(samples) / SAMPLE_RATE

    @property
    def waiting(self) -> int:
        return len(self._frames) - self._next

    def take(self, count: int) -> Samples:
        taken = self._frames[self._next : self._next + count]
        self._next += count
        return taken


class Live:
    """Samples that a client sends while they are heard. `push` may be called from any thread.

    A frame is due when it is complete, but not before the frame that came before it has lasted: a client that sends
    faster than time passes gets no more of the device than one that sends as it hears.
    """

    live = True

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._frames: deque[Samples] = deque()
        self._due: deque[float] = deque()
        self._last_due = -math.inf
        self._rest = np.zeros(0, np.float32)
        self.received = 0
        """Samples."""

    @property
    def waiting(self) -> int:
        return len(self._frames)

    @property
    def due(self) -> float | None:
        """When the next frame should be heard, None when there is none."""
        with self._lock:
            return self._due[0] if self._due else None

    def push(self, samples: Samples) -> bool:
        """Add samples; True when a frame became complete."""
        with self._lock:
            self.received += len(samples)
            joined = np.concatenate([self._rest, samples])
            whole = len(joined) // FRAME
            for frame in joined[: whole * FRAME].reshape(whole, FRAME):
                self._last_due = max(self._clock(), self._last_due + 1 / FRAME_RATE)
                self._frames.append(frame)
                self._due.append(self._last_due)
            self._rest = joined[whole * FRAME :]
            return whole > 0

    def take(self, count: int) -> Samples:
        with self._lock:
            for _ in range(count):
                self._due.popleft()
            return np.stack([self._frames.popleft() for _ in range(count)])
