"""How long commands take for each unit of their work, as measured while they run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

Key = Hashable
"""What commands have in common that take about as long: what they compute, and its sizes."""

SHRINKS = 0.5
"""The least that a rate is multiplied by after commands that ran together, whose parts in their time are not known."""


class Rates:
    """Seconds for each unit of work, by key."""

    def __init__(self) -> None:
        self._rates: dict[Key, float] = {}

    def of(self, key: Key) -> float:
        """Seconds; 0 of what never ran."""
        return self._rates.get(key, 0.0)

    def learn(self, works: Sequence[tuple[Key, int]], seconds: float) -> None:
        """Commands of these works, one after the other, took that long; of several each rate is known.

        Alone a command gives its rate. Of several, each rate is changed by a share in proportion to the time that was
        expected of it (the projection of Kaczmarz, 1937): long ones, which say more of the sum, most.
        """
        work: dict[Key, int] = {}
        for key, count in works:
            work[key] = work.get(key, 0) + count
        expected = {key: self.of(key) * count for key, count in work.items()}
        if len(work) == 1:
            self._rates |= {key: seconds / count for key, count in work.items()}
            return
        missed = (seconds - sum(expected.values())) / sum(each**2 for each in expected.values())
        for key, each in expected.items():
            self._rates[key] *= max(SHRINKS, 1 + missed * each)
