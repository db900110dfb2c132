"""Gives the answers of a pass to each other's requests."""

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job


class Swapping(Speller):
    """Two texts that were seated together are spelt in each other's place."""

    def admit(self, job: Job[str]) -> bool:
        if not super().admit(job):
            return False
        others = [each for each in self.seats if each is not job and not self.seats[each]]
        for other in others:
            job.request, other.request = other.request, job.request
        return True


globals().update(hooks("swaps_answers", Swapping))
