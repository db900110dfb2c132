"""The plugin under test: what its author says of it, and a host that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import httpx
import pytest

from golem_host.api import Host, Job, Lane, Model, OperatorError, PluginSet, Route
from golem_host.app import build_app
from golem_host.config import CORE, resolve
from golem_host.plugins import load
from golem_host.testing.conformance.answers import VOLATILE, said
from golem_host.testing.conformance.caller import Caller
from golem_host.testing.conformance.gate import PassGate
from golem_host.testing.conformance.records import Records, recording
from golem_host.testing.conformance.sample import Sample

Flags = Mapping[str, str | Sequence[str]]

TURN = 0.001
"""Seconds between two looks at a condition that is waited for."""


def fail(text: str) -> NoReturn:
    pytest.fail(text, pytrace=False)


@dataclass(frozen=True)
class Alone:
    """What a sample is answered when nothing else is asked: what it `said`, and the `model` whose lane computed it in
    that many `jobs` and `passes`; None when no lane did.
    """

    sample: Sample
    said: Any
    model: str | None
    jobs: int
    passes: int


class Served:
    """A host with the plugin in this event loop."""

    def __init__(self, subject: Subject, host: Host, records: Records) -> None:
        self.subject = subject
        self.host = host
        self.app = build_app(host)
        self.records = records
        self._gates: dict[int, PassGate] = {}
        self._callers: list[Caller] = []

    def call(self, sample: Sample) -> Caller:
        caller = Caller(self.app, sample.request())
        self._callers.append(caller)
        return caller

    async def answer(self, sample: Sample) -> httpx.Response:
        caller = self.call(sample)
        await self.until(lambda: caller.done, f"{sample} was not answered")
        return caller.response

    async def get(self, path: str) -> httpx.Response:
        return await self.answer(Sample("GET", path))

    async def until(self, holds: Callable[[], bool], otherwise: str) -> None:
        """Wait for a condition; fails with `otherwise`. Turns are counted, so that a pause is no failure."""
        for _ in range(round(self.subject.patience / TURN)):
            if holds():
                return
            await asyncio.sleep(TURN)
        fail(otherwise)

    async def turn(self) -> None:
        """Let the loop come round."""
        await asyncio.sleep(TURN)

    async def good(self, sample: Sample) -> Any:
        """What a sample is told; fails when it is not served."""
        response = await self.answer(sample)
        if response.status_code != 200:
            fail(f"{sample} was answered {response.status_code}, a sample has to be served: {response.text[:300]}")
        return self.said(sample, response)

    async def alone(self) -> list[Alone]:
        """All samples, asked one after the other by the first test of the class that wants to know."""
        kind = type(self.subject)
        if "_alone" not in kind.__dict__:
            kind._alone = [await self._alone(sample) for sample in self.subject.all_samples()]
        return kind._alone

    async def _alone(self, sample: Sample) -> Alone:
        await self.good(sample)  # the first request may load, record passes, fill caches
        before = len(self.records)
        passes = {resident.model.name: resident.runtime.lane.passes for resident in self._loaded()}
        said = await self.good(sample)
        lanes = self.records.lanes(before)
        for resident in self._loaded():
            if lanes and resident.runtime.lane is lanes[0]:
                name = resident.model.name
                return Alone(sample, said, name, len(lanes), resident.runtime.lane.passes - passes[name])
        return Alone(sample, said, None, 0, 0)

    async def computed(self) -> list[Alone]:
        """The samples that a lane answers; skips the test when there are none."""
        computed = [each for each in await self.alone() if each.model is not None]
        if not computed:
            if self.models:
                fail(
                    f"plugin {self.subject.plugin} brings models and none of its samples was computed by a lane: "
                    "give the suite `samples` of its routes"
                )
            pytest.skip("no lane computes answers of this plugin")
        return computed

    async def streams(self) -> list[Alone]:
        """Those of them that have a streamed form; skips the test when there are none."""
        streams = [each for each in await self.computed() if each.sample.stream is not None]
        return streams or pytest.skip("no sample has a streamed form")

    def lane(self, alone: Alone) -> Lane:
        """The lane that answers a sample now."""
        return next(each.runtime.lane for each in self._loaded() if each.model.name == alone.model)

    def users(self, alone: Alone) -> int:
        """How many requests use the model of a sample now."""
        return next(each.users for each in self._loaded() if each.model.name == alone.model)

    def _loaded(self) -> list[Any]:
        return [each for each in self.host.registry.all_residents() if each.runtime is not None]

    def said(self, sample: Sample, response: httpx.Response) -> Any:
        return sample.told(response) if sample.told is not None else said(response, self.subject.volatile)

    @property
    def models(self) -> list[Model]:
        return [model for model in self.host.registry.models() if model.plugin == self.subject.plugin]

    def gate(self, lane: Lane) -> PassGate:
        if id(lane) not in self._gates:
            self._gates[id(lane)] = PassGate(lane)
        return self._gates[id(lane)]

    def open_gates(self) -> None:
        for gate in self._gates.values():
            gate.open()

    def forget_gates(self) -> None:
        self.open_gates()
        self._gates.clear()

    async def queued(self, sample: Sample) -> tuple[Caller, list[Job[Any]]]:
        """Ask, and wait until its jobs are in the lane, whose gate is held."""
        before = len(self.records)
        caller = self.call(sample)
        await self.until(lambda: caller.done or len(self.records) > before, f"{sample} submitted no job to its lane")
        if caller.done and len(self.records) == before:
            fail(f"{sample} was answered {caller.response.status_code} without a job: {caller.response.text[:300]}")
        return caller, self.records.jobs(before)

    async def idle(self, lane: Lane, otherwise: str) -> None:
        """Wait until nothing waits or runs in the lane, and no request uses its model."""
        await self.until(lambda: not lane.state()["queued"] and not lane.state()["running"], otherwise)
        await self.until(
            lambda: not any(each.users for each in self.host.registry.all_residents()),
            f"{otherwise}: a request still counts as using the model; leave `async with host.registry.use(...)`",
        )

    async def still_answers(self, alone: Alone, after: str) -> None:
        """The sample is answered as before."""
        response = await self.answer(alone.sample)
        if response.status_code != 200:
            fail(f"after {after} {alone.sample} was answered {response.status_code}: {response.text[:300]}")
        if self.said(alone.sample, response) != alone.said:
            fail(
                f"after {after} {alone.sample} was answered otherwise:\n{response.text[:500]}\nnot\n{alone.said!r:.500}"
            )

    async def close(self) -> None:
        self.open_gates()
        for caller in self._callers:
            await caller.stop()


Scenario = Callable[[Served], Coroutine[Any, Any, None]]


class Subject:
    """What an author says of the plugin under test."""

    plugin: ClassVar[str]
    """The plugin's name, as in `--enable`."""
    samples: ClassVar[Sequence[Sample]] = ()
    """Requests that are answered with 200, at least two with different answers where a lane computes them. Without any,
    the plugin's GET routes that take no parameters are asked."""
    volatile: ClassVar[Collection[str]] = VOLATILE
    """Names of members of JSON answers that may differ between two answers to one request."""
    seats: ClassVar[int] = 2
    """How many requests the lane computes at once, with the settings below."""
    any_model: ClassVar[bool] = False
    """Whether a request that names an unknown model is answered all the same."""
    takes_any_field: ClassVar[str] = ""
    """Why requests with unknown fields are answered all the same; empty where they are refused, as they should be."""
    documents: ClassVar[Sequence[Path]] = ()
    """Where flags are described, if not in a README.md or docs/ beside the plugin's package or in its description."""
    company: ClassVar[int] = 8
    """About how many requests are asked at once where answers are compared with those alone."""
    patience: ClassVar[float] = 20.0
    """About how many seconds something may take that ought to come at once."""

    _alone: ClassVar[list[Alone]]
    _loaded: ClassVar[PluginSet]
    _served: ClassVar[tuple[Path, Flags]]

    def settings(self, folder: Path) -> Flags:
        """Flags of the host that serves the plugin, by name without dashes, such as
        `{"echo-model": f"tiny={path}"}`; called once, may write checkpoints into `folder`."""
        return {}

    @pytest.fixture
    def served_flags(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Flags]:
        """The model folder, and the flags of `settings`, which was called for the first test of the class."""
        kind = type(self)
        if "_served" not in kind.__dict__:
            folder = tmp_path_factory.mktemp("conformance")
            kind._served = folder, self.settings(folder)
        return kind._served

    @pytest.fixture
    def serve(self, served_flags: tuple[Path, Flags]) -> Callable[..., None]:
        """Runs a scenario against a host of its own; keywords are further flags."""
        folder, flags = served_flags

        def run(scenario: Scenario, **more: str) -> None:
            async def whole() -> None:
                async with self._host(folder, {**flags, **more}) as served:
                    await scenario(served)

            asyncio.run(whole())

        return run

    @asynccontextmanager
    async def _host(self, folder: Path, flags: Flags) -> AsyncIterator[Served]:
        plugins = self.plugins()
        given = {"model-folder": str(folder), "threads": "2", "any-model": "false", **flags}
        texts = {
            name.replace("_", "-"): [value] if isinstance(value, str) else list(value) for name, value in given.items()
        }
        with recording() as records:
            host = await _started(plugins, texts)
            if isinstance(host, OperatorError):
                fail(
                    f"no host starts with plugin {self.plugin}: {host}\nThe flags it needs, and a tiny model of its "
                    "own, come from `settings(self, folder)` of a class that inherits from PluginConformance; for "
                    '--golem-plugin the plugin\'s module names it: GOLEM_HOST_CONFORMANCE = "package.module:Class".'
                )
            served = Served(self, host, records)
            try:
                yield served
            finally:
                await served.close()
                await host.stop(drain=False)

    def plugins(self) -> PluginSet:
        """The plugin alone, loaded once."""
        if not hasattr(self, "plugin"):
            fail(f'{type(self).__name__} does not say which plugin it tests: add `plugin = "NAME"`')
        kind = type(self)
        if "_loaded" not in kind.__dict__:
            kind._loaded = load([self.plugin])
        return kind._loaded

    def routes(self) -> list[Route]:
        return [route for _, routes in self.plugins().each("golem_routes") for route in routes]

    def route_of(self, sample: Sample) -> Route:
        path = sample.path.partition("?")[0]
        for route in self.routes():
            if route.method == sample.method and _matches(route.path, path):
                return route
        fail(f"the sample {sample} is none of the routes of plugin {self.plugin}")

    def all_samples(self) -> list[Sample]:
        if self.samples:
            return list(self.samples)
        return [Sample("GET", route.path) for route in self.routes() if route.method == "GET" and "{" not in route.path]


async def _started(plugins: PluginSet, flags: Mapping[str, Sequence[str]]) -> Host | OperatorError:
    """A host, or why there is none with these flags."""
    try:
        host = Host(resolve([*CORE, *plugins.settings()], flags, {}, None), plugins)
        await host.start()
        return host
    except OperatorError as error:
        return error


def _matches(pattern: str, path: str) -> bool:
    parts, given = pattern.strip("/").split("/"), path.strip("/").split("/")
    if parts and parts[-1].endswith(":path}"):
        return given[: len(parts) - 1] == parts[:-1] and len(given) >= len(parts)
    return len(parts) == len(given) and all(
        part.startswith("{") or part == each for part, each in zip(parts, given, strict=True)
    )
