"""From recorded operations to dispatches in order, with their memory planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from golem_host.devices.plan import plan
from golem_host.devices.vulkan import (
    lower_attention,
    lower_elementwise,
    lower_largest,
    lower_products,
    lower_recurrent,
    lower_texts,
)
from golem_host.devices.vulkan.dispatch import Dispatch, Lower, Lowering
from golem_host.devices.vulkan.schedule import Step, schedule
from golem_host.ops.embedding import Rows, Select
from golem_host.ops.recording import Command, Recording, Ref
from golem_host.ops.rope import RopeAngles

if TYPE_CHECKING:
    from golem_host.devices.vulkan.gpu import Gpu

TABLE: dict[type, Lower] = {
    **lower_products.LOWER,
    **lower_elementwise.LOWER,
    **lower_attention.LOWER,
    **lower_recurrent.LOWER,
    **lower_texts.LOWER,
    **lower_largest.LOWER,
}
"""The function that lowers an operation; one without runs as its torch twin."""


@dataclass(frozen=True)
class Lowered:
    """A recording for a device: its steps in order, the commands that shaders compute, and where each tensor lies in
    `scratch_bytes` of memory. `given` are tensors that the host makes, by their commands, before it sends the inputs.
    """

    steps: list[Step]
    on_device: list[Command]
    given: dict[Ref, Command]
    offsets: dict[Ref, int]
    scratch_bytes: int

    @property
    def dispatches(self) -> list[Dispatch]:
        return [step.dispatch for step in self.steps if step.dispatch is not None]


def lower(gpu: Gpu, recording: Recording) -> Lowered:
    """Lower a recording; operations that no shader takes become steps that run their torch twin."""
    low = Lowering(gpu, recording, gpu.limits.storage_buffer_range)
    lowered: list[Command | Dispatch] = []
    on_device: list[Command] = []
    given: dict[Ref, Command] = {}
    positions = {command.inputs[0] for command in recording.commands if isinstance(command.op, RopeAngles)}
    for command in recording.commands:
        if command.output is not None and _by_host(command, {*recording.inputs.values(), *given}, positions):
            given[command.output] = command
            continue
        function = TABLE.get(type(command.op))
        made = None if function is None else function(low, command.op, command.output, *command.inputs)
        lowered += low.taken()
        if made is None:
            lowered.append(command)
        else:
            lowered += made
            on_device.append(command)
    steps = schedule(lowered)
    kept = list(recording.outputs.values())
    if recording.keep_names:
        kept += recording.names.values()
    alignment = max(gpu.limits.storage_buffer_alignment, 16)
    outside = [*recording.inputs.values(), *given]
    offsets, size = plan(steps, kept, outside=outside, alignment=alignment)
    return Lowered(steps, on_device, given, offsets, size)


def _by_host(command: Command, known: set[Ref], positions: set[Ref]) -> bool:
    """Whether it makes angles, chooses the `positions` they are of, or looks up rows of a table that stays in the
    file, of what is `known` before a pass.
    """
    if isinstance(command.op, RopeAngles):
        return command.inputs[0] in known
    if isinstance(command.op, Select):
        return command.output in positions and known.issuperset(command.inputs)
    return isinstance(command.op, Rows) and command.op.in_file and command.inputs[1] in known
