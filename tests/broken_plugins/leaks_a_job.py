"""Keeps every job it was given."""

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job

_known: list[Job[str]] = []


class Leaking(Speller):
    def admit(self, job: Job[str]) -> bool:
        if super().admit(job):
            _known.append(job)
            return True
        return False


globals().update(hooks("leaks_a_job", Leaking))
