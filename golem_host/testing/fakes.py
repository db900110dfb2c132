"""A plugin, a model and a lane without any mathematics: for tests of what surrounds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pluggy

from golem_host import hookspecs
from golem_host.devices.device import Device
from golem_host.hookspecs import Route
from golem_host.lanes.job import Job
from golem_host.lanes.stepwise import StepwiseLane
from golem_host.plugins import PluginInfo, PluginSet
from golem_host.registry import Model


@dataclass
class Script:
    """What a fake job does: emit the numbers 0, 1, ... one a pass, up to `events` (None: for ever), then end.

    It ends with `error` if there is one, else with the number of events. `silent` passes emit nothing.
    """

    events: int | None = None
    error: Exception | None = None
    silent: bool = False
    done: int = 0


class ScriptStepper:
    """Plays the scripts of up to `seats` jobs, one step each per pass."""

    def __init__(self, seats: int, pass_seconds: float = 0.002) -> None:
        self.seats = seats
        self.pass_seconds = pass_seconds
        self.seated: list[Job[Script]] = []

    def admit(self, job: Job[Script]) -> bool:
        if len(self.seated) >= self.seats:
            return False
        self.seated.append(job)
        return True

    def step(self) -> None:
        time.sleep(self.pass_seconds)
        for job in list(self.seated):
            script = job.request
            if script.done == script.events:
                self.seated.remove(job)
                if script.error is not None:
                    job.fail(script.error)
                else:
                    job.finish(script.done)
                continue
            if not script.silent:
                job.emit(script.done)
            script.done += 1

    def release(self, job: Job[Script]) -> None:
        if job in self.seated:
            self.seated.remove(job)

    def recover(self) -> None:
        self.seated.clear()


class FakeRuntime:
    """A loaded `FakeModel`."""

    def __init__(self, name: str, kind: str, seats: int) -> None:
        self.stepper = ScriptStepper(seats)
        self.lane = StepwiseLane(name, self.stepper, kind=kind)
        self.closed = False

    def close(self) -> None:
        self.closed = True


class FakeModel(Model):
    """A model whose answers are scripts. `failure` is raised by its loads, `gate` is called by them first."""

    plugin = "fake"
    family = architecture = "fake"
    parameter_count = 134_515_008
    quantization = "Q4_0"
    size_bytes = 1000
    context_length = 2048
    embedding_length = 64
    capabilities = ("completion",)
    modified = 1_700_000_000.25

    def __init__(
        self, name: str, *, path: Path, kind: str = "chat", aliases: tuple[str, ...] = (), seats: int = 2
    ) -> None:
        self.name, self.path, self.kind, self.aliases = name, path, kind, aliases
        self.seats = seats
        self.failure: Exception | None = None
        self.gate: Callable[[], None] = lambda: None
        self.shown: dict[str, Any] = {}

    def load(self, device: Device, settings: Mapping[str, Any], progress: Callable[[float], None]) -> FakeRuntime:
        self.gate()
        if self.failure is not None:
            raise self.failure
        return FakeRuntime(self.name, self.kind, self.seats)

    def show(self, verbose: bool) -> dict[str, Any]:
        return self.shown


class RoutesPlugin:
    """A plugin with routes and no models."""

    GOLEM_HOST_API = hookspecs.API

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    @hookspecs.hookimpl
    def golem_routes(self) -> Sequence[Route]:
        return self._routes


class FakePlugin(RoutesPlugin):
    """A plugin with the given models and routes."""

    def __init__(self, models: Sequence[Model], routes: Sequence[Route] = ()) -> None:
        super().__init__(routes)
        self._models = models

    @hookspecs.hookimpl
    def golem_models(self) -> Sequence[Model]:
        return self._models


def plugin_set(**plugins: object) -> PluginSet:
    """The given plugin objects (modules, `FakePlugin`s), enabled under their names."""
    manager = pluggy.PluginManager(hookspecs.GROUP)
    manager.add_hookspecs(hookspecs)
    for name, plugin in plugins.items():
        manager.register(plugin, name)
    return PluginSet(manager, [PluginInfo(name, "fakes", "0", "fakes") for name in plugins])
