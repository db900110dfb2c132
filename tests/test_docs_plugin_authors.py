"""docs/plugin-authors.md holds what it says: its first example in a new virtualenv, then every block of the page."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from golem_host.testing.command import Command
from tutorial import ADDRESS, PAGE, Reader, blocks, curl, first_example, fresh_environment, install_plainly, same

CONFORMANCE = """
from golem_host.testing.conformance import PluginConformance, Sample

class TestConformance(PluginConformance):
    plugin = "echo"
    samples = tuple(Sample("POST", "/v1/echo", json={"text": text}) for text in ("one", "two"))
"""


def test_the_first_example_has_the_form_that_programs_read() -> None:
    example = first_example()
    assert next(iter(example.files)) == "pyproject.toml"
    points = tomllib.loads(example.files["pyproject.toml"])["project"]["entry-points"]
    [(name, module)] = points["golem_host"].items()
    own = {
        point.name
        for point in metadata.entry_points(group="golem_host")
        if point.dist and point.dist.name == "golem-host"
    }
    assert name not in own
    source = example.files[module.replace(".", "/") + ".py"]
    assert len(source.splitlines()) - 1 < 20
    assert example.command.startswith(f"golem-host --enable {name}") and "\n" not in example.command
    assert len(example.calls) >= 2 and all(call.answer is not None for call in example.calls)
    assert all(call.command.startswith("curl ") and ADDRESS in call.command for call in example.calls)


def test_no_later_block_can_be_taken_for_the_first_example() -> None:
    strict = [block for block in blocks() if block.path and not block.titled]
    assert [block.path for block in strict] == list(first_example().files)
    assert sum(block.language == "bash" for block in blocks()) == len(first_example().calls)
    assert sum(block.language == "shell" for block in blocks()) == 1


@pytest.mark.slow
def test_the_first_example_answers_what_it_promises(tmp_path: Path) -> None:
    example = first_example()
    project = tmp_path / "project"
    for name, text in example.files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    python = fresh_environment(tmp_path / "venv")
    install_plainly(python, project)
    words = shlex.split(example.command)[1:]
    with Command(*words, "--addr", "127.0.0.1:0", cwd=str(tmp_path), python=str(python)) as host:
        for call in example.calls:
            answer = json.loads(curl(call.command, host.url))
            assert same(answer, call.answer), answer
    (tmp_path / "test_echo.py").write_text(CONFORMANCE, encoding="utf-8")
    words = [str(python), "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_echo.py"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_a_reader_gets_through_the_page(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.follow()
    fences = PAGE.read_text(encoding="utf-8").count("\n```")
    assert fences == 2 * len(blocks()), "a block is not read by this test"
    assert any("train.py" in command for command in reader.ran)
    assert any("pytest" in command for command in reader.ran)


@pytest.mark.parametrize(
    ("answer", "promised", "equal"),
    [
        ({"a": 1, "b": [2]}, {"a": "...", "b": ["..."]}, True),
        ({"a": 1}, {"a": 1, "b": "..."}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": True}, {"a": 1}, False),
        ([1, 2], [1], False),
    ],
)
def test_answers_are_compared_whole(answer: object, promised: object, equal: bool) -> None:
    assert same(answer, promised) is equal
