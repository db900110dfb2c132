"""Ends each job twice."""

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job


class Twice(Speller):
    def end(self, job: Job[str], spelt: str) -> None:
        job.finish(spelt)
        job.finish(spelt)


globals().update(hooks("answers_twice", Twice))
