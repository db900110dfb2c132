"""What a pass is given is checked before it is submitted: a shader cannot fail one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.devices.vulkan.cache import VulkanCache
from golem_host.devices.vulkan.state import VulkanState
from golem_host.ops.attention import Attention
from golem_host.ops.embedding import Rows, Select
from golem_host.ops.recording import Axis, Command, Ref
from golem_host.ops.temperature import Temperature
from golem_host.ops.texts import Mean


@dataclass(frozen=True)
class Bound:
    """Values of an input are from 0 to below `limit`, or below the live rows of an axis."""

    limit: int | Axis
    what: str


@dataclass
class Checks:
    """The bounds of each input of a recording, and the states that follow its slots and positions.

    Made from the commands that run on the device; torch twins check for themselves.
    """

    bounds: dict[Ref, set[Bound]] = field(default_factory=dict)
    spans: set[tuple[Ref, Ref, Axis]] = field(default_factory=set)
    """Where rows begin and how many they are, of the live rows of an axis."""
    states: dict[tuple[Ref, Ref], list[VulkanState]] = field(default_factory=dict)

    @staticmethod
    def of(commands: Iterable[Command], inputs: Iterable[Ref]) -> Checks:
        """The checks that need no more than the inputs."""
        given = set(inputs)
        checks = Checks()

        def bound(ref: Any, limit: int | Axis, what: str) -> None:
            if ref.root in given:
                checks.bounds.setdefault(ref.root, set()).add(Bound(limit, what))

        for command in commands:
            if isinstance(command.op, Rows):
                table, ids = command.inputs
                bound(ids, table.shape[0], f"a row of {table.name}")
            elif isinstance(command.op, Select):
                bound(command.inputs[1], command.inputs[0].axis, "a row of the pass")
            elif isinstance(command.op, Temperature):
                bound(command.inputs[1], 1 << 31, "a position")
            elif isinstance(command.op, Mean):
                x, first, count = command.inputs
                if {first.root, count.root} <= given:
                    checks.spans.add((first.root, count.root, x.axis))
            store = next((each for each in command.inputs if isinstance(each, VulkanCache | VulkanState)), None)
            if store is None:
                continue
            slots, positions = command.inputs[-2:]
            bound(slots, store.slots, "a slot")
            if isinstance(store, VulkanCache):
                # a row that sees all wants every position in a cell of its own
                sees_all = isinstance(command.op, Attention) and not 0 < command.op.window <= store.cells
                bound(positions, store.cells if sees_all else 2**31, "a position")
            elif {slots.root, positions.root} <= given:
                checks.states.setdefault((slots.root, positions.root), []).append(store)
        return checks

    @property
    def inputs(self) -> set[Ref]:
        """The inputs that are checked."""
        pairs = [*self.states, *((first, count) for first, count, _ in self.spans)]
        return {*self.bounds, *(ref for pair in pairs for ref in pair)}

    def check(self, rows: Mapping[Ref, NDArray[np.int32]], live: Mapping[Axis, int]) -> None:
        """Check the live `rows` of each input, and note in the states that they have taken them.

        Raises IndexError for a value out of bounds, and for rows that do not follow their states.
        """
        for ref, bounds in self.bounds.items():
            values = rows[ref]
            if not values.size:
                continue
            lowest, highest = int(values.min()), int(values.max())
            for bound in bounds:
                limit = live[bound.limit] if isinstance(bound.limit, Axis) else bound.limit
                if lowest < 0 or highest >= limit:
                    raise IndexError(
                        f"{bound.what} was asked for that is not there: {lowest}..{highest}, there are {limit}"
                    )
        for first, count, axis in self.spans:
            begin, size = rows[first].astype(np.int64), rows[count]
            wrong = np.flatnonzero((begin < 0) | (size < 1) | (begin + size > live[axis]))
            if wrong.size:
                at = int(begin[wrong[0]])
                raise IndexError(f"the mean of rows {at} to {at + int(size[wrong[0]])} of {live[axis]}")
        for (slots, positions), states in self.states.items():
            follow_all(states, rows[slots], rows[positions])


def follow_all(states: list[VulkanState], slots: NDArray[np.int32], positions: NDArray[np.int32]) -> None:
    """`golem_host.ops.state.follow` for the states of all layers at once. Raises IndexError with nothing noted."""
    firsts: dict[int, int] = {}
    taken: dict[int, int] = {}
    for slot, position in zip(slots.tolist(), positions.tolist(), strict=True):
        if slot in taken and position != taken[slot]:
            raise IndexError(f"position {position} does not follow {taken[slot] - 1} of slot {slot}")
        firsts.setdefault(slot, position)
        taken[slot] = position + 1
    used = np.fromiter(firsts, np.int64, len(firsts))
    begin = np.fromiter(firsts.values(), np.int64, len(firsts))
    for state in states:
        wrong = np.flatnonzero((begin != 0) & (state.taken[used] != begin))
        if wrong.size:
            slot = int(used[wrong[0]])
            wants = f"{state.taken[slot]} or 0"
            raise IndexError(f"position {firsts[slot]} does not follow the state of slot {slot}, which wants {wants}")
    after = np.fromiter(taken.values(), np.int64, len(taken))
    for state in states:
        state.taken[used] = after
