"""Pads the texts of a pass to one length, and takes the padding for letters."""

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job


class Padding(Speller):
    def __init__(self) -> None:
        super().__init__()
        self._widths: dict[Job[str], int] = {}

    def step(self) -> None:
        width = max(len(job.request) for job in self.seats)
        for job in self.seats:
            self._widths[job] = max(width, self._widths.get(job, 0))
        super().step()
        self._widths = {job: width for job, width in self._widths.items() if job in self.seats}

    def end(self, job: Job[str], spelt: str) -> None:
        padding = "_" * (self._widths[job] - len(spelt))
        if padding:
            job.emit(padding)
        job.finish(spelt + padding)


globals().update(hooks("mixes_a_batch", Padding))
