"""Where the layers of a model are in its recorded pass, as the names of their weights tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from golem_host.ops import Recording, Ref
from golem_host.weights.tensor import Tensor

_LAYER = re.compile(r"blk\.(\d+)\.")


def layer_count(names: Iterable[str]) -> int:
    """How many layers the weights of these names belong to."""
    return max((int(found[1]) for name in names if (found := _LAYER.match(name))), default=-1) + 1


def first_command(recording: Recording, layer: int) -> int:
    """The first command that reads a weight of that layer or a later one; what follows the last layer is its own."""
    for at, command in enumerate(recording.commands):
        for each in command.inputs:
            found = _LAYER.match(each.name) if isinstance(each, Tensor) else None
            if found and int(found[1]) >= layer:
                return at
    return len(recording.commands)


def weights(recording: Recording) -> Iterator[Tensor]:
    """The weights that a pass reads, in its order."""
    return (each for command in recording.commands for each in command.inputs if isinstance(each, Tensor))


def whole_cut(recording: Recording, layer: int) -> int:
    """The last layer, that one or an earlier, before which a cut parts no layers that share keys and values."""
    while any(first < first_command(recording, layer) <= last for first, last in _uses(recording)):
        layer -= 1
    return layer


def _uses(recording: Recording) -> list[tuple[int, int]]:
    """The first and the last command that has each cache or state."""
    uses: dict[int, list[int]] = {}
    for at, command in enumerate(recording.commands):
        for each in command.inputs:
            if each is not None and not isinstance(each, Ref | Tensor):
                uses.setdefault(id(each), []).append(at)
    return [(found[0], found[-1]) for found in uses.values()]
