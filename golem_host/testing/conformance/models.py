"""Checks of a plugin's models: loaded, unloaded, broken; and of what is counted."""

from __future__ import annotations

import gc
import math
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from golem_host.api import Metric, Model, ModelFileError
from golem_host.testing.conformance.envelopes import envelope_fault, message_of
from golem_host.testing.conformance.sample import Sample
from golem_host.testing.conformance.subject import Served, Subject, fail


class ModelChecks(Subject):
    """Models come and go while the host runs."""

    def test_load_progress(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            for model in self._models(served):
                told = await _loaded_again(served, model)
                if any(not 0.0 <= share <= 1.0 for share in told) or told != sorted(told):
                    fail(f"loading {model.name} told of {told[:20]}: shares go from 0 to 1 and never fall")

        serve(scenario)

    def test_unload_and_reload(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            models = self._models(served)
            asked = [(each.sample, each.said) for each in await served.alone()]
            for model in models:
                left = await self._unloaded(served, model)
                if left is not None and left() is not None:
                    holders = sorted({type(each).__name__ for each in gc.get_referrers(left())})
                    fail(
                        f"{model.name} was unloaded, and its runtime is still referred to by {', '.join(holders)}: "
                        "a model is unloaded for its memory"
                    )
            for sample, said in asked:
                again = await served.good(sample)
                if again != said:
                    fail(f"loaded again, the model answers {sample} with {again!r:.400}, not {said!r:.400}")

        serve(scenario)

    async def _unloaded(self, served: Served, model: Model) -> weakref.ref[Any] | None:
        """Unload a model; a weak reference to what its runtime was, None where there is no such thing."""
        runtime = served.host.registry.loaded(model)
        if runtime is None:
            fail(f"{model.name} is not in memory though the host has started with it")
        try:
            left = weakref.ref(runtime)
        except TypeError:
            left = None
        lane = weakref.ref(runtime.lane)
        del runtime
        await served.host.registry.unload(model)
        if served.host.registry.loaded(model) is not None:
            fail(f"{model.name} stays in memory although no request uses it")
        device = served.host.devices[model.device]
        if any(each is lane() for each in device.lanes):
            fail(f"the lane of {model.name} is still on its device")
        await served.turn()
        gc.collect()
        return left

    def test_poisoned_model(self, serve: Any) -> None:
        """Half a file, and a load that raises: the request fails clearly, the host and the next load do not."""

        async def scenario(served: Served) -> None:
            models = self._models(served)
            computed = await served.computed()
            for spoil in (_half_files, _raising_loads):
                for model in models:
                    await served.host.registry.unload(model)
                with spoil(models, served.host.settings["model-folder"]) as spoilt:
                    for each in computed if spoilt else []:
                        await self._refuses(served, each.sample)
                for each in computed:
                    await served.still_answers(each, "a load that failed")
            health = await served.get("/health")
            if health.status_code != 200:
                fail(f"after a load that failed and one that did not, health says {health.text[:300]}")

        serve(scenario)

    async def _refuses(self, served: Served, sample: Sample) -> None:
        response, dialect = await served.answer(sample), self.route_of(sample).dialect
        if response.status_code != 500:
            fail(f"{sample} with a broken model is answered {response.status_code}, not 500: {response.text[:300]}")
        fault = envelope_fault(response, dialect)
        if fault is not None:
            fail(f"{sample} with a broken model: an error of the dialect {dialect!r} has another shape: {fault}")
        if "cannot be loaded" not in message_of(response, dialect):
            fail(
                f"{sample} with a broken file does not say so: {response.text[:300]}\n"
                "Check sizes before use, and raise ModelFileError(path, what is wrong) in `Model.load`."
            )
        if (await served.get("/api/version")).status_code != 200:
            fail("the host answers nothing after a load that failed")

    def test_metrics(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            before = await self._figures(served)
            for sample in self.all_samples():
                await served.good(sample)
            after = await self._figures(served)
            for model in served.models:
                labels = (("kind", model.kind), ("model", model.name))
                for name in ("golem_model_loaded", "golem_lane_requests_waiting", "golem_lane_pass_seconds_count"):
                    if (name, labels) not in after:
                        fail(f"/metrics has no {name} of {model.name}: its runtime has no lane that the host knows")
            _check_growth(before, after, "after more requests")
            for model in served.models:
                await served.host.registry.unload(model)
                await served.host.registry.load(model)
            again = await self._figures(served)
            _check_growth(after, again, "when the model came back: keep it on the `Model`, which stays")
            for answer in served.host.plugins.ask(self.plugin, "golem_metrics", host=served.host):
                for metric in answer:
                    _check_metric(metric)

        serve(scenario)

    async def _figures(self, served: Served) -> dict[tuple[str, Any], float]:
        from prometheus_client.parser import text_string_to_metric_families

        response = await served.get("/metrics")
        if response.status_code != 200:
            fail(f"/metrics is answered {response.status_code}: {response.text[:300]}")
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(response.text)
            for sample in family.samples
            if "le" not in sample.labels
        }

    def _models(self, served: Served) -> list[Model]:
        if not served.models:
            pytest.skip("the plugin brings no models")
        return served.models


def _check_growth(before: Mapping[Any, float], after: Mapping[Any, float], when: str) -> None:
    for (name, labels), value in before.items():
        if name.endswith(("_total", "_count")) and after.get((name, labels), value) < value:
            fail(f"the counter {name}{dict(labels)} fell from {value:g} to {after[name, labels]:g} {when}")


def _check_metric(metric: Metric) -> None:
    if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", metric.name):
        fail(f"golem_metrics: {metric.name!r} is no name of a metric")
    if metric.kind not in ("counter", "gauge"):
        fail(f"golem_metrics: {metric.name} is of kind {metric.kind!r}, not counter or gauge")
    if (metric.kind == "counter") != metric.name.endswith("_total"):
        fail(
            f"golem_metrics: {metric.name} is a {metric.kind}; names of counters, and of nothing else, end with _total"
        )
    if not metric.help.strip():
        fail(f"golem_metrics: {metric.name} has no help text")
    for labels, value in metric.samples:
        if not isinstance(value, int | float) or math.isnan(value):
            fail(f"golem_metrics: {metric.name}{dict(labels)} is {value!r}, no number")


async def _loaded_again(served: Served, model: Model) -> list[float]:
    """Unload and load a model; the shares that its load told of."""
    told: list[float] = []
    load: Any = model.load

    def listening(device: Any, settings: Any, progress: Any) -> Any:
        def both(share: float) -> None:
            told.append(share)
            progress(share)

        return load(device, settings, both)

    await served.host.registry.unload(model)
    served.forget_gates()
    model.load = listening  # type: ignore[method-assign]
    try:
        await served.host.registry.load(model)
    finally:
        del model.load
    return told


@contextmanager
def _raising_loads(models: list[Model], folder: Path) -> Iterator[bool]:
    def poisoned(model: Model) -> Any:
        def load(*_: Any) -> Any:
            raise ModelFileError(model.path, "poisoned by the conformance suite")

        return load

    for model in models:
        model.load = poisoned(model)  # type: ignore[method-assign]
    try:
        yield True
    finally:
        for model in models:
            del model.load  # type: ignore[method-assign]


@contextmanager
def _half_files(models: list[Model], folder: Path) -> Iterator[bool]:
    """The largest file of each model cut in half, in its place; whether there are such files, made for this test."""
    files = {
        path for path in map(_largest, models) if path is not None and path.resolve().is_relative_to(folder.resolve())
    }
    for path in files:
        kept = path.with_name(f"{path.name}.whole")
        os.replace(path, kept)  # mappings of it stay valid
        path.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
    try:
        yield bool(files)
    finally:
        for path in files:
            os.replace(path.with_name(f"{path.name}.whole"), path)


def _largest(model: Model) -> Path | None:
    path = getattr(model, "path", None)
    if path is None or not path.exists():
        return None
    if path.is_file():
        return path
    return max((each for each in path.rglob("*") if each.is_file()), key=lambda each: each.stat().st_size, default=None)
