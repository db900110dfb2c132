"""`golem-host bench` with a plugin that has no mathematics: what is run, how often, and what is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from golem_host import bench as benching
from golem_host import hookspecs
from golem_host.bench import bench
from golem_host.config import CORE, resolve
from golem_host.errors import ModelFileError, OperatorError, RequestError
from golem_host.hookspecs import Workload
from golem_host.testing.fakes import FakeModel, FakePlugin, Script, plugin_set


class TimedPlugin(FakePlugin):
    """Counts rounds of two scripts; the second workload fails with `error`."""

    def __init__(self, model: FakeModel, error: Exception | None = None) -> None:
        super().__init__([model])
        self.turns: list[int] = []
        self.error = error
        self.asked: list[tuple[str, Any]] = []

    @hookspecs.hookimpl
    def golem_bench(self, model: Any, runtime: Any, settings: Any) -> Sequence[Workload]:
        self.asked.append((model.name, runtime.lane.name))
        return [
            Workload("two scripts", "numbers", self._scripts, sum),
            Workload("another", "numbers", lambda turn: [Script(events=1, error=self.error)], sum),
        ]

    def _scripts(self, turn: int) -> list[Script]:
        self.turns.append(turn)
        return [Script(events=3), Script(events=5)]


def settings_of(folder: Path):
    return resolve(CORE, {"model-folder": [str(folder)], "threads": ["1"]}, {}, None)


@pytest.fixture
def model(tmp_path: Path) -> FakeModel:
    return FakeModel("m", path=tmp_path / "m.gguf")


def test_every_workload_is_timed_round_after_round(model, tmp_path, capsys):
    plugin = TimedPlugin(model)
    assert bench(settings_of(tmp_path), plugin_set(fake=plugin), as_json=True) == 0
    told = capsys.readouterr()
    (found,) = json.loads(told.out)["models"]
    assert plugin.asked == [("m", "m")]
    assert plugin.turns == list(range(1 + benching.ROUNDS)), "the first round warms up"
    assert (found["name"], found["quantization"]) == ("m", "Q4_0")
    assert [work["name"] for work in found["works"]] == ["two scripts", "another"]
    two = found["works"][0]
    assert two["unit"] == "numbers/s"
    assert len(two["rates"]) == benching.ROUNDS
    # Eight numbers in at least six passes of two milliseconds each.
    assert all(0 < rate < 8 / 0.012 for rate in two["rates"])
    assert sorted(two["rates"])[benching.ROUNDS // 2] == two["median"]
    assert "timing m: two scripts" in told.err


def test_slow_work_is_timed_less_often(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(benching, "ENOUGH_SECONDS", 0.0)
    plugin = TimedPlugin(model)
    bench(settings_of(tmp_path), plugin_set(fake=plugin), as_json=True)
    assert len(json.loads(capsys.readouterr().out)["models"][0]["works"][0]["rates"]) == 2


def test_the_table_names_model_work_and_unit(model, tmp_path, capsys):
    bench(settings_of(tmp_path), plugin_set(fake=TimedPlugin(model)), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "1 threads" in lines[0] and "kernels: " in lines[0]
    assert lines[2].startswith("m: fake 134.5M, Q4_0")
    assert lines[4].split()[:2] == ["WORK", "MEDIAN"]
    assert lines[5].startswith("two scripts") and "numbers/s" in lines[5]


def test_a_plugin_that_times_nothing_is_told(model, tmp_path):
    with pytest.raises(OperatorError, match=r"plugin fake does not say what to time \(golem_bench\)"):
        bench(settings_of(tmp_path), plugin_set(fake=FakePlugin([model])), as_json=False)


def test_a_job_that_fails_ends_the_command(model, tmp_path):
    with pytest.raises(OperatorError, match="m: another failed: no such luck"):
        bench(settings_of(tmp_path), plugin_set(fake=TimedPlugin(model, RequestError("no such luck"))), as_json=False)


def test_a_model_that_does_not_load_ends_the_command(model, tmp_path):
    model.failure = ModelFileError(model.path, "tensor 'x' is missing")
    with pytest.raises(OperatorError, match="model 'm' cannot be loaded.*tensor 'x' is missing"):
        bench(settings_of(tmp_path), plugin_set(fake=TimedPlugin(model)), as_json=False)
