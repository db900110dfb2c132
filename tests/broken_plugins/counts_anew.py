"""Counts from nothing when its model is loaded again."""

from collections.abc import Sequence
from typing import Any

from broken_plugins.spelling import Speller, hooks
from golem_host.api import Job, Metric, hookimpl

_spelt = {"texts": 0}


class Counting(Speller):
    def __init__(self) -> None:
        super().__init__()
        _spelt["texts"] = 0

    def end(self, job: Job[str], spelt: str) -> None:
        _spelt["texts"] += 1
        super().end(job, spelt)


@hookimpl
def golem_metrics(host: Any) -> Sequence[Metric]:
    return [Metric("spell_texts_total", "counter", "Texts that were spelt.", [({}, _spelt["texts"])])]


globals().update(hooks("counts_anew", Counting))
