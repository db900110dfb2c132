"""What a pass gives sampling: logits, and what was found in them while they were computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Scores:
    """Rows of `logits` float32 (rows, vocab_size), valid until the next pass, and of each row its block maxima float32
    (rows, blocks) and the id of its largest logit, -1 where they are not all finite (`golem_host.ops.largest`).
    """

    logits: NDArray[np.float32]
    maxima: NDArray[np.float32]
    best: list[int]
