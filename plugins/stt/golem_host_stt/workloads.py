"""What `golem-host bench` times of a speech-to-text model: one recording, and as many as it has streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from golem_host.api import Workload
from golem_host_stt.listening import Request
from golem_host_stt.mimi_config import SAMPLE_RATE
from golem_host_stt.runtime import SttRuntime
from golem_host_stt.streams import Whole

SECONDS = 4.0
"""Of a recording."""


def workloads(runtime: SttRuntime) -> Sequence[Workload]:
    """Recordings are noise; seconds of audio per second are how many times faster than real time they are heard."""

    def recordings(turn: int, count: int) -> list[Request]:
        noise = np.random.default_rng(turn).normal(0, 0.2, (count, round(SECONDS * SAMPLE_RATE)))
        return [Request(Whole(samples.astype(np.float32), runtime.timing)) for samples in noise]

    def work(name: str, count: int) -> Workload:
        return Workload(name, "s of audio", lambda turn: recordings(turn, count), lambda _: count * SECONDS)

    works = [work(f"one recording of {SECONDS:g} s", 1)]
    if (streams := runtime.streams) > 1:
        works.append(work(f"{streams} recordings of {SECONDS:g} s at once", streams))
    return works
