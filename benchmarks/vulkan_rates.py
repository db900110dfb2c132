"""What passes over a Vulkan device cost and bring, as the chat lane runs them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.passes import Columns, Passes

SLOTS = (1, 2, 4, 8)
PROMPT = 480
DRAWN = 64
CONTEXT = 1024
"""Positions of a slot."""
COPIED = 256 << 20
"""Bytes of the buffers that are copied: far more than any cache holds."""


@dataclass(frozen=True)
class Rates:
    """Tokens per second, and seconds: processor time of a replay for one token, of recording one command, of loading.

    `drawing` is by conversations at once, all of them together; `commands` are those of a pass for one token.
    """

    prompt: float
    prompt_tokens: int
    drawing: dict[int, float]
    commands: int
    replay_seconds: float
    recording_seconds: float
    load_seconds: float


def measure(path: Path, gpu: Gpu, seconds: float) -> Rates:
    """Load a model and time its passes, each kind for about that many seconds."""
    with open_gguf(path) as gguf:
        started = time.perf_counter()
        backend = VulkanBackend(gpu)
        passes = Passes(family_of(gguf), backend, slots=max(SLOTS), context=CONTEXT)
        passes.prepare(lambda share: None)
        loaded = time.perf_counter() - started
        chance = Random(0)

        def columns(slots: int, first: int, count: int) -> Columns:
            made = Columns()
            for slot in range(slots):
                tokens = [chance.randrange(passes.vocab_size) for _ in range(count)]
                made.add(slot, first, tokens, output=True)
            return made

        def draw(slots: int) -> Callable[[int], object]:
            return lambda turn: passes.run(columns(slots, turn % CONTEXT, 1))

        wide = passes.program(passes.widest)
        started = time.perf_counter()
        wide.record()
        recording = (time.perf_counter() - started) / wide.commands
        drawing = {slots: slots / _seconds_each(draw(slots), seconds) for slots in SLOTS}
        prompt = PROMPT / _seconds_each(lambda _: passes.run(columns(1, 0, PROMPT)), seconds)
        costs = []
        for turn in range(20):
            made = columns(1, turn, 1)
            before = time.thread_time()
            passes.run(made)
            costs.append(time.thread_time() - before)
        commands = passes.program(1).commands
        passes.close()
    return Rates(prompt, PROMPT, drawing, commands, statistics.median(costs), recording, loaded)


def copy_bandwidth(gpu: Gpu) -> float:
    """Bytes per second, those read and those written, at which the device copies its own memory."""
    size = min(COPIED, gpu.limits.allocation // 4)
    source, target = (gpu.arena(expected=size).take(size) for _ in range(2))
    copies = 8
    with Pass(gpu) as passing:
        passing.fill(source)
        for _ in range(copies):
            passing.copy(source, target)
        passing.end()
        times = []
        for _ in range(4):
            started = time.perf_counter()
            gpu.wait(passing.submit())
            times.append(time.perf_counter() - started)
    return 2 * size * copies / min(times)


def _seconds_each(run: Callable[[int], object], seconds: float) -> float:
    """The median time of a run: three to warm up, then as many as fit into `seconds`, at least three."""
    for turn in range(3):
        run(turn)
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        run(3 + len(times))
        times.append(time.perf_counter() - started)
    return statistics.median(times)
