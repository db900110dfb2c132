"""Sends a stream when all of it is there."""

import time
from typing import Any

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job


class Hoarding(Speller):
    def step(self) -> None:
        """The letters are emitted with the last one."""
        for job in list(self.seats):
            if self.seats[job] == job.request:
                for letter in job.request:
                    job.emit(letter)
                time.sleep(0.05)  # the first letter is sent before this pass, which is the last, is over
        emitted: dict[Job[str], Any] = {job: job.emit for job in self.seats}
        for job in emitted:
            job.emit = lambda event: None  # type: ignore[method-assign]
        super().step()
        for job in emitted:
            del job.emit  # type: ignore[method-assign]


globals().update(hooks("hoards_its_stream", Hoarding))
