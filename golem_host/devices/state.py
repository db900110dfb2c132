"""What every device's recurrent states share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Checkpoint:
    """What one slot's state was after `position` positions: `values` float32, the state's shape."""

    position: int
    values: NDArray[np.float32]

    def check(self, shape: tuple[int, ...]) -> None:
        """Raises ValueError when it is of a state of another shape."""
        if self.values.shape != shape:
            raise ValueError(f"a checkpoint of shape {self.values.shape} for a state of shape {shape}")
