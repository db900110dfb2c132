"""Never has two texts in one pass, though it says so."""

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job


class Lonely(Speller):
    def admit(self, job: Job[str]) -> bool:
        return not self.seats and super().admit(job)


globals().update(hooks("one_at_a_time", Lonely))
