"""The order in which a recording's dispatches run: those that nothing ties to each other side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from golem_host.devices.vulkan.dispatch import Dispatch
from golem_host.ops.recording import Command, Ref


@dataclass
class Step:
    """One entry of a program: a dispatch, or a command whose torch twin runs (`command`).

    `with_next` says that it runs at the same time as the next one.
    """

    reads: Sequence[Ref]
    writes: Ref | None
    in_place: Sequence[Ref] = ()
    dispatch: Dispatch | None = None
    command: Command | None = None
    with_next: bool = False


def twin(command: Command) -> Step:
    """The step that runs a command's torch twin."""
    return Step([each for each in command.inputs if isinstance(each, Ref)], command.output, command=command)


def schedule(lowered: Iterable[Command | Dispatch]) -> list[Step]:
    """Steps from dispatches, and commands that run as twins, in the order of the recording.

    Between two twins each dispatch moves up to where what it reads is there; those of one such level keep their order,
    and only the last of them lets the next wait. In a transformer the products of one input come side by side, as do
    the rotations of queries and keys.
    """
    steps: list[Step] = []
    stretch: list[Dispatch] = []
    for each in lowered:
        if isinstance(each, Dispatch):
            stretch.append(each)
            continue
        steps += _by_level(stretch)
        stretch = []
        steps.append(twin(each))
    return steps + _by_level(stretch)


def _by_level(stretch: Sequence[Dispatch]) -> list[Step]:
    levels: list[list[Step]] = []
    ready: dict[Any, int] = {}
    """The level from which on a tensor or view has been written, by tensor or view."""
    read: dict[Any, int] = {}
    """The last level that reads a view."""
    for dispatch in stretch:
        views = [_key(each) for each in dispatch.buffers if _is_view(each)]
        stores = [_key(each) for each in dispatch.stores]
        level = max((ready.get(each, 0) for each in (*(ref.root for ref in dispatch.reads), *views)), default=0)
        level = max(level, *(read.get(each, -1) + 1 for each in stores)) if stores else level
        if dispatch.writes is not None:
            root = dispatch.writes.root
            ready[root] = max(ready.get(root, 0), level + 1)
        for each in views:
            read[each] = max(read.get(each, -1), level)
        for each in stores:
            ready[each] = level + 1
        if level == len(levels):
            levels.append([])
        levels[level].append(Step(dispatch.reads, dispatch.writes, dispatch.in_place, dispatch=dispatch))
    for steps in levels:
        for step in steps[:-1]:
            step.with_next = True
    return [step for steps in levels for step in steps]


def _is_view(each: Any) -> bool:
    """Whether it is memory that outlives a pass and may be written in it."""
    from golem_host.devices.vulkan.memory import View

    return isinstance(each, View)


def _key(view: Any) -> Any:
    return view.binding
