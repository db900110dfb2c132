"""A sound plugin that spells: a letter of the text in each pass, and behind the module that names it nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from golem_host.api import Device, Job, Model, ModelFileError, Route, Setting, Settings, StepwiseLane, hookimpl
from golem_host.config import named_path

SEATS = 2
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
PATH = "/v1/spell"


class Speller:
    """Two seats, each with the letters of its text so far."""

    def __init__(self) -> None:
        self.seats: dict[Job[str], str] = {}

    def admit(self, job: Job[str]) -> bool:
        if len(self.seats) == SEATS:
            return False
        self.seats[job] = ""
        return True

    def step(self) -> None:
        for job, spelt in list(self.seats.items()):
            if spelt == job.request:
                del self.seats[job]
                self.end(job, spelt)
            else:
                letter = job.request[len(spelt)]
                self.seats[job] += letter
                job.emit(letter)

    def end(self, job: Job[str], spelt: str) -> None:
        job.finish(spelt)

    def release(self, job: Job[str]) -> None:
        self.seats.pop(job, None)

    def recover(self) -> None:
        self.seats.clear()


class SpellingModel(Model):
    kind = family = "spell"

    def __init__(self, plugin: str, path: Path, name: str | None, speller: Callable[[], Speller]) -> None:
        self.plugin, self.path, self.name = plugin, path, name or path.stem
        self._speller = speller

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> SpellingRuntime:
        if self.path.read_text(encoding="utf-8") != ALPHABET:
            raise ModelFileError(self.path, "this is not the alphabet")
        progress(1.0)
        return SpellingRuntime(self.name, self._speller(), settings["queue"])


class SpellingRuntime:
    def __init__(self, name: str, speller: Speller, queue: int) -> None:
        self.lane = StepwiseLane(name, speller, kind="spell", queue_limit=queue, seats=SEATS)

    def submit(self, text: str) -> Job[str]:
        job = Job(text)
        self.lane.submit(job)
        return job

    def close(self) -> None:
        """Nothing is held."""


def hooks(
    plugin: str, speller: Callable[[], Speller] = Speller, handler: str = "broken_plugins.routes:spell"
) -> dict[str, Any]:
    """What the module of a plugin that spells is made of."""

    @hookimpl
    def golem_settings() -> list[Setting]:
        return [Setting("spell-model", named_path, (), "The alphabet.", repeatable=True)]

    @hookimpl
    def golem_models(settings: Settings) -> list[Model]:
        folder = settings["model-folder"]
        return [SpellingModel(plugin, given.find(folder), given.name, speller) for given in settings["spell-model"]]

    @hookimpl
    def golem_routes() -> list[Route]:
        return [Route("POST", PATH, handler, dialect="openai", summary="Spells a text")]

    return {
        "GOLEM_HOST_API": 1,
        "GOLEM_HOST_CONFORMANCE": "broken_plugins.conformance:Conformance",
        "golem_settings": golem_settings,
        "golem_models": golem_models,
        "golem_routes": golem_routes,
    }
