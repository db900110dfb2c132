"""The conformance suite finds the fault of each broken plugin, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from golem_host.testing.conformance.light import LightChecks
from golem_host.testing.distributions import write_distribution

TESTS = Path(__file__).parent
FAULTS: Mapping[str, set[str]] = {
    "sound": set(),
    "routes_only": set(),
    "answers_twice": {"test_jobs_end_once"},
    "blocks_the_loop": {"test_event_loop_is_never_blocked"},
    "counts_anew": {"test_metrics"},
    "hoards_its_stream": {"test_progress"},
    "ignores_cancel": {"test_cancel_running"},
    "ignores_fields": {"test_unknown_fields"},
    "imports_torch": {"test_lazy_import"},
    "leaks_a_job": {"test_jobs_are_let_go"},
    "lets_go_early": {"test_progress"},
    "mixes_a_batch": {"test_batch_equals_alone"},
    "one_at_a_time": {"test_batch_equals_alone"},
    "streams_on": {"test_cancel_streamed"},
    "swaps_answers": {"test_order"},
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """For each plugin its checks and how they failed, empty for those that passed; as a stranger would run them."""
    folder = tmp_path_factory.mktemp("broken")
    for name in FAULTS:
        write_distribution(folder / "site", f"golem-{name}", plugins={name: f"broken_plugins.{name}"}, modules={})
    (folder / "site" / "broken_plugins").symlink_to(TESTS / "broken_plugins")  # without the tests beside them
    paths = (str(folder / "site"), os.environ.get("PYTHONPATH", ""))
    report = folder / "report.xml"
    named = [word for name in FAULTS for word in ("--golem-plugin", name)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "golem_host.testing.pytest_plugin",
            *named,
            "-q",
            f"--junitxml={report}",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    found: dict[str, dict[str, str]] = {name: {} for name in FAULTS}
    for case in ElementTree.parse(report).iter("testcase"):
        faults = [*case.iter("failure"), *case.iter("error")]
        plugin = case.attrib["classname"].rpartition("Test_")[2]
        found[plugin][case.attrib["name"]] = faults[0].attrib["message"] if faults else ""
    return found


@pytest.mark.slow
@pytest.mark.parametrize("plugin", FAULTS)
def test_each_fault_is_found_by_its_check(outcomes: dict[str, dict[str, str]], plugin: str) -> None:
    failed = {check: text for check, text in outcomes[plugin].items() if text}
    assert set(failed) == FAULTS[plugin], failed
    assert len(outcomes[plugin]) > 20


def test_a_project_is_described_by_its_pages_and_not_by_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an editable installation the description is as old as the installation."""

    class Edited(LightChecks):
        def _module(self) -> str:
            return "edited_plugin"

        def _description(self) -> str:
            return "--of-yesterday"

    (tmp_path / "edited_plugin.py").write_text("", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert "--of-yesterday" in Edited()._documentation()  # there is no page
    (tmp_path / "README.md").write_text("--of-today", encoding="utf-8")
    assert Edited()._documentation() == "--of-today"
    (tmp_path / "pyproject.toml").unlink()
    assert "--of-yesterday" in Edited()._documentation()  # a folder of installed packages


def test_a_plugin_that_is_not_installed_is_an_error_of_usage(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "golem_host.testing.pytest_plugin", "--golem-plugin", "nothing"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no plugin named 'nothing' is installed" in done.stderr
    assert "Traceback" not in done.stderr
