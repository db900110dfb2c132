"""Goes on for clients that have left: a seat that was taken stays taken."""

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job


class Stubborn(Speller):
    def step(self) -> None:
        for job in self.seats:
            if not job.cancelled:
                super().step()
                return

    def release(self, job: Job[str]) -> None:
        """The seat is kept."""


globals().update(hooks("ignores_cancel", Stubborn))
