"""Both sides of a row in turn, and what came of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rows import Row


@dataclass(frozen=True)
class Result:
    """Rates of both sides, one of each a round."""

    row: Row
    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def compare(rows: Sequence[Row], ours: Any, peers: Mapping[str, Any], rounds: int) -> list[Result]:
    """Measure every row once a round, both sides in turn with the same prompts; a first round only warms up."""
    results = [Result(row, [], []) for row in rows]
    for turn in range(-1, rounds):
        for result in results:
            row = result.row
            sides = [(result.ours, row.ours, ours), (result.theirs, row.theirs, peers[row.peer])]
            for rates, measure, who in sides if turn % 2 else reversed(sides):
                rate = measure(who, Random(f"{turn} {row.name}"))
                if turn >= 0:
                    rates.append(rate)
    return results
