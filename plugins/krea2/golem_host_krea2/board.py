"""How far the pictures are that clients asked for, by id."""

from __future__ import annotations

import threading
from collections import OrderedDict

from golem_host.api import BadRequest
from golem_host_krea2.picture import Progress, Stage

KEPT = 64
"""Pictures that are remembered after they ended."""


class Board:
    """Any thread reads and adds."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Progress] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, progress: Progress) -> None:
        """Raises BadRequest for the id of a picture that is still asked for."""
        with self._lock:
            there = self._known.pop(progress.id, None)
            if there is not None and not _ended(there):
                self._known[progress.id] = there
                raise BadRequest(f"'progress_id' {progress.id!r} is that of another picture", param="progress_id")
            self._known[progress.id] = progress
            ended = [id for id, each in self._known.items() if _ended(each)]
            for id in ended[: max(0, len(ended) - KEPT)]:
                del self._known[id]

    def find(self, id: str) -> Progress | None:
        with self._lock:
            return self._known.get(id)


def _ended(progress: Progress) -> bool:
    return progress.stage in (Stage.DONE, Stage.FAILED)
