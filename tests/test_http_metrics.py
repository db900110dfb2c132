"""`/metrics`: every lane is counted, whoever brought it, and a model that is loaded again goes on counting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from golem_host.errors import Overloaded
from golem_host.hookspecs import Metric, hookimpl
from golem_host.lanes.job import Job
from golem_host.lanes.oneshot import OneShotLane
from golem_host.lanes.tally import Histogram
from golem_host.testing.fakes import FakeModel, FakePlugin, Script, plugin_set
from golem_host.testing.inprocess import running, settings_of


async def scraped(client: httpx.AsyncClient) -> dict[str, float]:
    """The figures by name and labels, as `name{label=value,...}`."""
    reply = await client.get("/metrics")
    assert reply.status_code == 200 and reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert int(reply.headers["process-start-time-unix"]) > 0
    figures = {}
    for family in text_string_to_metric_families(reply.text):
        assert family.documentation and family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            figures[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return figures


class Counting(FakePlugin):
    """A plugin with figures of its own; `fault` is raised instead of them."""

    fault: Exception | None = None

    @hookimpl
    def golem_metrics(self, host: Any) -> Sequence[Metric]:
        if self.fault is not None:
            raise self.fault
        return [Metric("own_things_total", "counter", "Things", [({"of": host.version}, 3)])]


def test_lanes_are_counted_over_loads(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = FakeModel("m", path=tmp_path / "m.bin", kind="decide", seats=2)
        async with running(settings_of(tmp_path), plugin_set(fake=FakePlugin([model]))) as (host, client):
            before = await scraped(client)
            assert before["golem_model_loaded{kind=decide,model=m}"] == 1
            assert before["golem_lane_pass_requests_count{kind=decide,model=m}"] == 0
            for _ in range(2):
                async with host.registry.use(model) as runtime:
                    jobs = [Job(Script(events=3)) for _ in range(2)]
                    with runtime.lane.arriving():
                        for job in jobs:
                            runtime.lane.submit(job)
                    await asyncio.gather(*(job.result() for job in jobs))
                await host.registry.unload(model)
            figures = await scraped(client)
            assert figures["golem_model_loaded{kind=decide,model=m}"] == 0
            assert figures["golem_lane_requests_running{kind=decide,model=m}"] == 0
            assert figures["golem_lane_wait_seconds_count{kind=decide,model=m}"] == 4
            passes = figures["golem_lane_pass_seconds_count{kind=decide,model=m}"]
            assert passes == figures["golem_lane_pass_requests_count{kind=decide,model=m}"] >= 8
            # Each job is in four passes: three events and its end.
            assert figures["golem_lane_pass_requests_sum{kind=decide,model=m}"] == 16
            assert figures["golem_lane_pass_requests_bucket{kind=decide,le=2,model=m}"] == passes
            assert figures["golem_lane_pass_seconds_sum{kind=decide,model=m}"] > 0

    asyncio.run(scenario())


def test_what_waits_runs_is_refused_or_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = FakeModel("m", path=tmp_path / "m.bin", seats=1)
        async with (
            running(settings_of(tmp_path), plugin_set(fake=FakePlugin([model]))) as (host, client),
            host.registry.use(model) as runtime,
        ):
            runtime.lane.queue_limit = 1
            endless, waiting = Job(Script(silent=True)), Job(Script(events=0))
            runtime.lane.submit(endless)
            while not endless.started:
                await asyncio.sleep(0.001)
            runtime.lane.submit(waiting)
            with pytest.raises(Overloaded):
                runtime.lane.submit(Job(Script()))
            figures = await scraped(client)
            assert figures["golem_lane_requests_running{kind=chat,model=m}"] == 1
            assert figures["golem_lane_requests_waiting{kind=chat,model=m}"] == 1
            assert figures["golem_lane_requests_refused_total{kind=chat,model=m}"] == 1
            assert figures["golem_http_requests_in_progress"] == 1
            endless.request.events = "not a number"  # type: ignore[assignment]
            endless.request.done = "breaks the pass"  # type: ignore[assignment]
            with pytest.raises(Exception, match="failed while computing"):
                await endless.result()
            assert await waiting.result() == 0
            figures = await scraped(client)
            assert figures["golem_lane_passes_failed_total{kind=chat,model=m}"] == 1
            assert figures["golem_lane_requests_waiting{kind=chat,model=m}"] == 0

    asyncio.run(scenario())


def test_one_shot_passes_are_counted() -> None:
    def answer(parts: Any) -> None:
        for part in parts:
            if part.job.request == "bad":
                raise ValueError("bad")
            part.job.finish()

    lane = OneShotLane("m", answer, kind="embed", costs=lambda job: [1], budget=3, gather_below=0, gather_seconds=0.0)
    for request in ("a", "b", "bad", "c"):
        lane.submit(Job(request))
    lane.run(0.0)
    lane.run(0.0)
    tally = lane.tally
    assert lane.passes == tally.pass_seconds.count == 2
    assert (tally.pass_requests.sum, tally.wait_seconds.count) == (4, 4)
    assert tally.failed_passes == 2, "three together, then the one at fault alone"


def test_plugins_add_figures_and_one_that_fails_takes_no_others_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        plugin = Counting([FakeModel("m", path=tmp_path / "m.bin")])
        async with running(settings_of(tmp_path), plugin_set(fake=plugin)) as (host, client):
            assert (await scraped(client))[f"own_things_total{{of={host.version}}}"] == 3
            plugin.fault = RuntimeError("no figures today")
            figures = await scraped(client)
            assert figures["golem_model_loaded{kind=chat,model=m}"] == 1
            assert not any(name.startswith("own_things") for name in figures)

    asyncio.run(scenario())


def test_names_of_models_are_escaped(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = FakeModel('a"b\\c\nd', path=tmp_path / "m.bin")
        async with running(settings_of(tmp_path), plugin_set(fake=FakePlugin([model]))) as (_, client):
            assert (await scraped(client))['golem_model_loaded{kind=chat,model=a"b\\c\nd}'] == 1

    asyncio.run(scenario())


def test_metrics_need_the_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = FakeModel("m", path=tmp_path / "m.bin")
        settings = settings_of(tmp_path, {"api-key": "secret"})
        async with running(settings, plugin_set(fake=FakePlugin([model]))) as (_, client):
            assert (await client.get("/metrics")).status_code == 401
            allowed = await client.get("/metrics", headers={"Authorization": "Bearer secret"})
            assert allowed.status_code == 200

    asyncio.run(scenario())


def test_histogram() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0, 1, 1.5, 2, 3, 100):
        histogram.observe(value)
    assert histogram.cumulative() == [2, 4, 5, 6]
    assert (histogram.count, histogram.sum) == (6, 107.5)
