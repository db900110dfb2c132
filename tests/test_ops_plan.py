"""The arena plan: tensors alive at the same time never share memory, kept ones stay, in-place steps take memory
over.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from golem_host.devices.cpu.lowering import Step
from golem_host.devices.plan import ALIGNMENT, plan, size_of
from golem_host.ops.recording import Recording, Ref


@dataclass(frozen=True)
class Nothing:
    def twin(self, *inputs: Any) -> Any:
        return inputs[0]


def steps_of(recording: Recording) -> list[Step]:
    return [
        Step(
            command.output.axis,
            [ref for ref in command.inputs if isinstance(ref, Ref)],
            command.output,
            in_place=[command.inputs[i] for i in command.in_place],
        )
        for command in recording.commands
        if command.output is not None
    ]


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[Step], list[Ref]]:
    recording = Recording()
    axis = recording.axis("rows", draw(st.integers(1, 5)))
    made: list[Ref] = []
    for _ in range(draw(st.integers(1, 25))):
        count = draw(st.integers(0, min(2, len(made))))
        inputs = tuple(draw(st.sampled_from(made)) for _ in range(count))
        in_place = (0,) if inputs and draw(st.booleans()) else ()
        shape = inputs[0].shape if in_place else (draw(st.integers(1, 40)),)
        made.append(recording.append(Nothing(), inputs, axis, shape, in_place=in_place))
        if draw(st.booleans()):
            made.append(made[-1].reshape(1, made[-1].width))
    kept = draw(st.lists(st.sampled_from(made), max_size=3))
    steps = steps_of(recording)
    made_now: set[Ref] = set()
    for step, following in pairwise(steps):
        assert step.writes is not None
        made_now.add(step.writes.root)
        step.with_next = not made_now & {read.root for read in following.reads} and draw(st.booleans())
        if not step.with_next:
            made_now.clear()
    return steps, kept


def together_with(steps: list[Step], at: int) -> list[Step]:
    """The steps that run at the same time as step `at`, itself included."""
    first, last = at, at
    while first and steps[first - 1].with_next:
        first -= 1
    while steps[last].with_next:
        last += 1
    return steps[first : last + 1]


@given(recordings())
def test_no_two_living_tensors_overlap(case: tuple[list[Step], list[Ref]]) -> None:
    steps, kept = case
    offsets, size = plan(steps, kept)
    last = {read.root: at for at, step in enumerate(steps) for read in step.reads}
    last |= {ref.root: len(steps) for ref in kept}
    alive: dict[Ref, tuple[int, int]] = {}
    for now, step in enumerate(steps):
        assert step.writes is not None
        out = step.writes.root
        start, end = offsets[out], offsets[out] + size_of(out)
        assert start % ALIGNMENT == 0 and end <= size
        beside = [other for other in together_with(steps, now) if other is not step]
        read_beside = {read.root for other in beside for read in other.reads}
        may_take_over = {ref.root for ref in step.in_place if last[ref.root] == now} - read_beside
        for other, (from_, to) in alive.items():
            assert other in may_take_over or end <= from_ or to <= start
        alive[out] = (start, end)
        if not step.with_next:
            alive = {ref: span for ref, span in alive.items() if last.get(ref, now) > now}


def test_a_long_chain_needs_two_buffers() -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    x = recording.append(Nothing(), (), axis, (16,))
    for _ in range(50):
        x = recording.append(Nothing(), (x,), axis, (16,))
    assert plan(steps_of(recording), [x])[1] == 2 * size_of(x)


def test_working_in_place_needs_one() -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    x = recording.append(Nothing(), (), axis, (16,))
    for _ in range(50):
        x = recording.append(Nothing(), (x,), axis, (16,), in_place=(0,))
    assert plan(steps_of(recording), [x])[1] == size_of(x)


def test_an_input_that_is_read_later_is_not_overwritten() -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    x = recording.append(Nothing(), (), axis, (16,))
    y = recording.append(Nothing(), (x,), axis, (16,), in_place=(0,))
    recording.append(Nothing(), (x, y), axis, (16,))
    offsets, _ = plan(steps_of(recording), [])
    assert offsets[x] != offsets[y]


def test_what_another_step_reads_at_the_same_time_is_not_overwritten() -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    x = recording.append(Nothing(), (), axis, (16,))
    recording.append(Nothing(), (x,), axis, (16,))
    y = recording.append(Nothing(), (x,), axis, (16,), in_place=(0,))
    steps = steps_of(recording)
    assert plan(steps, [y])[0][x] == plan(steps, [y])[0][y]
    steps[1].with_next = True
    assert plan(steps, [y])[0][x] != plan(steps, [y])[0][y]


def test_inputs_that_lie_elsewhere_take_no_memory() -> None:
    recording = Recording()
    axis = recording.axis("rows", 1)
    given_ = recording.input("x", axis, 16)
    y = recording.append(Nothing(), (given_,), axis, (16,), in_place=(0,))
    offsets, size = plan(steps_of(recording), [y], outside=[given_])
    assert given_ not in offsets and size == size_of(y)
