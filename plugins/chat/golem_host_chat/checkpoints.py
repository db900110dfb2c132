"""At which positions of a prompt a copy of what a slot remembers is made. Integers only."""

from __future__ import annotations

from collections.abc import Sequence

EVERY = 1024
"""Positions of a long prompt from one checkpoint to the next."""
LEAST = 16
"""Positions that a checkpoint must save reading: a pass over fewer costs no more than one over a single column."""


def plan_checkpoints(
    kept: Sequence[int], *, start: int, length: int, points: Sequence[int], most: int
) -> tuple[int, ...]:
    """The positions, in order, that should have a checkpoint when a prompt of `length` tokens has been read from
    `start` on.

    Of those in `kept` (none after `start`), every 1,024th, and `points` where another prompt may go on, the `most` that
    cover the prompt best.

    When they are too many, the one goes whose neighbours are nearest to each other, one of `points` after all others;
    the last one stays.
    """
    wanted = {*kept, *range((start // EVERY + 1) * EVERY, length, EVERY)}
    for point in points:
        before = max((each for each in kept if each <= point), default=0)
        if point >= start and point - before >= LEAST:
            wanted.add(point)
    positions = sorted(wanted)
    while len(positions) > max(most, 1):
        bounds = [0, *positions]
        loss = [(at in points, positions[i + 1] - bounds[i]) for i, at in enumerate(positions[:-1])]
        positions.pop(loss.index(min(loss)))
    return tuple(positions) if most else ()
