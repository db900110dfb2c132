"""A recording cut in two, for two devices: what the second half reads of the first crosses over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from golem_host.ops.recording import Command, Recording, Ref


@dataclass(frozen=True)
class Halves:
    """Two recordings on the axes of the one that was cut, over the same tensors.

    `crossing` are the names under which the first has outputs that the second has as inputs.
    """

    first: Recording
    second: Recording
    crossing: tuple[str, ...]


def halve(recording: Recording, at: int, place: Callable[[Any, int], Any]) -> Halves:
    """The commands before and from command `at` on, as recordings of their own.

    `place(input, half)` is what a command of half 0 or 1 has for an input that is no tensor of the pass (a weight, a
    cache). Inputs belong to the halves that read them, outputs and names to the half that makes them.
    """
    before, after = recording.commands[:at], recording.commands[at:]
    made = list(dict.fromkeys(command.output.root for command in before if command.output is not None))
    read = _read(after)
    first = _part(recording, before, lambda each: place(each, 0), lambda ref: ref.root in made)
    second = _part(recording, after, lambda each: place(each, 1), lambda ref: ref.root not in made)
    crossing = {f"crossing {number}": ref for number, ref in enumerate(ref for ref in made if ref in read)}
    first.outputs |= crossing
    second.inputs |= crossing
    return Halves(first, second, tuple(crossing))


def _part(
    recording: Recording, commands: Sequence[Command], place: Callable[[Any], Any], has: Callable[[Ref], bool]
) -> Recording:
    part = Recording(keep_names=recording.keep_names)
    part.axes = list(recording.axes)
    part.commands = [
        replace(command, inputs=tuple(each if isinstance(each, Ref) else place(each) for each in command.inputs))
        for command in commands
    ]
    read = _read(commands)
    part.inputs = {name: ref for name, ref in recording.inputs.items() if ref.root in read}
    part.outputs = {name: ref for name, ref in recording.outputs.items() if has(ref)}
    part.names = {name: ref for name, ref in recording.names.items() if has(ref)}
    return part


def _read(commands: Sequence[Command]) -> set[Ref]:
    return {each.root for command in commands for each in command.inputs if isinstance(each, Ref)}
