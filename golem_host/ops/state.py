"""Recurrent state: what a layer remembers of a slot's past in a fixed size, whatever the number of positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class State(Protocol):
    """The recurrent state of one layer for every slot, allocated by a backend.

    `values` are float32 (slots, *shape), `taken` int32 (slots,): how many positions each slot's state has seen. On the
    CPU both are numpy arrays. A pass must go on at that position, or begin anew at 0, else it fails before anything is
    written: rows that are skipped or fed twice never go into a state unnoticed. A pass that failed elsewhere may have
    left some layers ahead of others; the slot then begins anew, or at a checkpoint of all its layers.
    """

    slots: int
    shape: tuple[int, ...]

    @property
    def values(self) -> Any: ...

    @property
    def taken(self) -> Any: ...


def follow(state: State, slots: torch.Tensor, positions: torch.Tensor) -> list[tuple[int, bool]]:
    """The slot of each row, and whether the row starts it from zeros; notes that the state has taken the rows.

    Raises IndexError, with nothing noted, for a slot that is not there and for rows that do not follow their state.
    """
    taken: dict[int, int] = {}
    rows: list[tuple[int, bool]] = []
    for slot, position in zip(slots.tolist(), positions.tolist(), strict=True):
        if not 0 <= slot < state.slots:
            raise IndexError(f"slot {slot} is outside the state of {state.slots} slots")
        expected = taken.get(slot, 0 if position == 0 else int(state.taken[slot]))
        if position != expected:
            raise IndexError(
                f"position {position} does not follow the state of slot {slot}, which wants {expected} or 0"
            )
        taken[slot] = position + 1
        rows.append((slot, position == 0))
    for slot, count in taken.items():
        state.taken[slot] = count
    return rows
