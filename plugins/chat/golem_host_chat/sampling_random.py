"""C++'s `std::mt19937` and the two uniform distributions llama-server draws from, output for output (libstdc++)."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

# At load: numpy imports its generators when they are first named, which would hold a pass up.
from numpy.random import MT19937, RandomState

_AHEAD = 64
_BELOW_ONE = math.nextafter(1.0, 0.0)


class Mt19937:
    """The 32-bit Mersenne Twister, seeded with one 32-bit number."""

    def __init__(self, seed: int) -> None:
        # RandomState seeds by the generator's own recurrence, as std::mt19937 does; MT19937(seed) would hash the seed
        # first.
        self._generator = MT19937()
        self._generator.state = cast(Any, RandomState(seed).get_state(legacy=False))
        self._outputs: list[int] = []
        """Some of the next, last first: one at a time they cost much more."""

    def raw(self) -> int:
        """The next 32-bit output."""
        if not self._outputs:
            self._outputs = self._generator.random_raw(_AHEAD)[::-1].tolist()
        return self._outputs.pop()

    def uniform_double(self) -> float:
        """In [0, 1), from two outputs: `uniform_real_distribution<double>`."""
        low = self.raw()
        return min((low + self.raw() * 2.0**32) / 2.0**64, _BELOW_ONE)

    def uniform_float(self) -> np.float32:
        """In [0, 1), from one output: `uniform_real_distribution<float>`."""
        value = np.float32(self.raw()) / np.float32(2**32)
        return min(value, np.nextafter(np.float32(1), np.float32(0)))
