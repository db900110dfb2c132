"""The order of dispatches, and passes cut into submissions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from golem_host.devices.vulkan import cut as cutting
from golem_host.devices.vulkan.backend import VulkanBackend
from golem_host.devices.vulkan.commands import Pass
from golem_host.devices.vulkan.dispatch import Dispatch
from golem_host.devices.vulkan.gpu import Gpu
from golem_host.devices.vulkan.memory import View
from golem_host.devices.vulkan.schedule import Step, schedule
from golem_host.ops import Recording
from golem_host.ops.recording import Ref
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights.gguf import open_gguf
from golem_host_chat.families import family_of
from golem_host_chat.passes import Columns, Passes


class Steps:
    """Dispatches of kernels by name over tensors of one axis."""

    def __init__(self) -> None:
        self.recording = Recording()
        self.axis = self.recording.axis("rows", 1)
        self.made: list[Dispatch] = []

    def __call__(self, name: str, *reads: Ref, views: tuple[View, ...] = (), stores: tuple[View, ...] = ()) -> Ref:
        out = Ref(self.recording, self.axis, (4,))
        buffers = [*reads, *views, *stores, out]
        self.made.append(
            Dispatch(name, (64,), buffers, [], (1, 1, 1), self.axis, list(reads), out, stores=list(stores))
        )
        return out


def levels(steps: list[Step]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for step in steps:
        assert step.dispatch is not None
        found[-1].append(step.dispatch.kernel)
        if not step.with_next:
            found.append([])
    return found[:-1]


def test_what_nothing_ties_runs_side_by_side() -> None:
    run = Steps()
    x = run("norm")
    q = run("turn q", run("q", x))
    k = run("turn k", run("k", x))
    run("mix", q, k, run("v", x))
    expected = [["norm"], ["q", "k", "v"], ["turn q", "turn k"], ["mix"]]
    assert levels(schedule(run.made)) == expected


def test_readers_of_a_cache_wait_for_its_writer_and_writers_for_readers(gpu: Gpu) -> None:
    arena = gpu.arena()
    one, other = arena.take(64), arena.take(64)
    run = Steps()
    run("store one", stores=(one,))
    run("read one", views=(one,))
    run("read one again", views=(one,))
    run("store other", stores=(other,))
    run("store one again", stores=(one,))
    run("read both", views=(one, other))
    expected = [["store one", "store other"], ["read one", "read one again"], ["store one again"], ["read both"]]
    assert levels(schedule(run.made)) == expected


@pytest.fixture(scope="module")
def passes(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Passes:
    path: Path = tiny_gguf(tmp_path_factory.mktemp("tiny") / "m.gguf", "llama", quantization="Q4_0")
    with open_gguf(path) as gguf:
        return Passes(family_of(gguf), VulkanBackend(gpu), slots=2, context=64)


def test_a_pass_of_one_token_is_one_submission_and_a_wide_one_is_cut_by_its_time(passes: Passes) -> None:
    columns = Columns()
    columns.add(1, 0, list(range(5, 21)), output=True)
    program = passes.program(16)
    assert [type(part) for part in passes.program(1)._parts] == [Pass]
    whole = passes.run(columns).logits.copy()
    for seconds in (1.0, 0.0, 1e4, 0.001):
        program._fit(seconds)
        most = max(1, seconds / cutting.SECONDS)
        assert len(program._parts) <= 2 * most + 1
        if seconds > 100:
            assert len(program._parts) > program.commands // 4
        np.testing.assert_array_equal(passes.run(columns).logits, whole)


def test_pieces_hold_every_step_in_order(passes: Passes) -> None:
    steps = passes.program(16)._steps
    for most in (1.0, 1e5, 1e12):
        pieces = cutting.cut(steps, most)
        assert [step for piece in pieces for step in piece] == steps
        work = [sum(cutting.work_of(step.dispatch) for step in piece if step.dispatch) for piece in pieces]
        assert all(one + other > most for one, other in pairwise(work))
