"""`golem-host new-plugin`: what it refuses, and that what it writes is installed, tested and served as it says."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from golem_host import new_plugin
from golem_host.errors import UsageError
from golem_host.testing.command import Command


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Hello_World", "'Hello_World' is no name for a plugin: .*; 'hello-world' would do"),
        ("golem-host-hello", "'golem-host-', which is put before it; 'hello' would do"),
        ("../up", "; 'up' would do"),
        ("9", "is no name for a plugin: .* before it$"),
        ("", "is no name for a plugin"),
        ("a" * 41, "; 'a{40}' would do"),
        ("chat", r"plugin 'chat' is installed already \(golem-host .*\); choose another name"),
        ("models", "/v1/models would be its route, and belongs to golem-host itself"),
        ("rerank", "/v1/rerank would be its route, and belongs to plugin embed"),
        ("conformance", "'conformance' is what every plugin calls its conformance suite"),
        ("image", "'image' would be its kind of model"),
    ],
)
def test_names_that_are_refused(name, reason, tmp_path):
    with pytest.raises(UsageError, match=reason):
        new_plugin.new_plugin(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path):
    (tmp_path / "golem-host-hello").mkdir()
    with pytest.raises(UsageError, match="golem-host-hello is there already; remove it, or choose another name"):
        new_plugin.new_plugin("hello", tmp_path)
    assert not list((tmp_path / "golem-host-hello").iterdir())


def test_every_template_is_written():
    folder = Path(new_plugin.__file__).parent / "plugin_template"
    assert {path.name for path in folder.iterdir()} == set(new_plugin.FILES)


NAME = "keyword-spotting"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the command was run."""
    folder = tmp_path_factory.mktemp("author")
    with Command("new-plugin", NAME, cwd=str(folder)) as command:
        command.end()
    assert f"golem-host --enable {NAME}" in command.output
    return folder


@pytest.fixture(scope="module")
def project(folder: Path) -> Path:
    """What it wrote."""
    return folder / f"golem-host-{NAME}"


@pytest.fixture(scope="module")
def python(project: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has the project, and else what this one has: nothing is fetched."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "behind.pth").write_text("\n".join(site.getsitepackages()))
    python = str(venv / "bin/python")
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", str(project)]
    subprocess.run([python, "-m", "pip", *words], check=True, stdin=subprocess.DEVNULL)
    return python


@pytest.mark.slow
def test_its_own_tests_pass(project: Path, python: str):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
    words = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 20, "the conformance suite alone has more"


def test_the_suite_of_the_installed_plugin_is_its_own(python: str):
    """What `pytest --golem-plugin` runs."""
    program = (
        "import sys; from golem_host.testing.conformance.chosen import suite_of; print(suite_of(sys.argv[1]).samples)"
    )
    done = subprocess.run([python, "-P", "-c", program, NAME], capture_output=True, text=True)
    assert "POST" in done.stdout and "Grace" in done.stdout, done.stderr


def test_it_is_served_as_its_readme_says(project: Path, python: str, tmp_path: Path):
    environment = {"GOLEM_HOME": str(tmp_path), "GOLEM_KEYWORD_SPOTTING_GREETING": "Welcome"}
    with Command("--enable", NAME, "--addr", "127.0.0.1:0", python=python, env=environment) as command:
        answer = httpx.post(f"{command.url}/v1/{NAME}", json={"names": ["Ada", "Grace"]})
        assert answer.json() == {"model": NAME, "greetings": ["Welcome, Ada!", "Welcome, Grace!"]}
        assert httpx.get(f"{command.url}/health").json() == {"status": "ok"}
        figures = httpx.get(f"{command.url}/metrics").text
        assert 'golem_keyword_spotting_greeted_total{model="keyword-spotting"} 2.0' in figures
        (listed,) = httpx.get(f"{command.url}/api/tags").json()["models"]
        assert listed["name"].startswith(NAME)
    assert f"`POST /v1/{NAME}`" in (project / "README.md").read_text()
