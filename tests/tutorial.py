"""docs/plugin-authors.md as a reader follows it: files written, hosts started, commands run, answers compared."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golem_host.testing.command import Command

PAGE = Path(__file__).parents[1] / "docs/plugin-authors.md"

_BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"# ([\w./-]+\.\w+)\n")
ADDRESS = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Block:
    """One fenced block. `path` is the file that it is: by its title, or by a first line that is only a comment."""

    language: str
    text: str
    path: str | None
    titled: bool


def blocks(page: Path = PAGE) -> list[Block]:
    found = []
    for language, title, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        named = _PATH.match(text)
        found.append(Block(language, text, title or (named[1] if named else None), bool(title)))
    return found


@dataclass(frozen=True)
class Call:
    """A curl command, and the JSON that answers it (None: whatever comes)."""

    command: str
    answer: Any


@dataclass(frozen=True)
class Example:
    """The first example, in the form that others read by program too."""

    files: dict[str, str]
    command: str
    calls: list[Call]


def first_example() -> Example:
    """Files, then one `shell` block with the host's command, then `bash` blocks with an optional `json` block each."""
    found = [block for block in blocks() if not block.titled and block.language != "sh"]
    begin = next(index for index, block in enumerate(found) if block.path == "pyproject.toml")
    files: dict[str, str] = {}
    rest = found[begin:]
    while rest[0].path is not None:
        block = rest.pop(0)
        assert block.path not in files
        files[str(block.path)] = block.text
    shell = rest.pop(0)
    assert shell.language == "shell"
    calls = []
    while rest and rest[0].language == "bash":
        command = rest.pop(0).text.strip()
        answer = json.loads(rest.pop(0).text) if rest and rest[0].language == "json" else None
        calls.append(Call(command, answer))
    return Example(files, shell.text.strip(), calls)


def same(answer: Any, promised: Any) -> bool:
    """Whether an answer is what was promised, where `"..."` stands for anything."""
    if promised == "...":
        return True
    if isinstance(promised, dict):
        return (
            isinstance(answer, dict)
            and answer.keys() == promised.keys()
            and all(same(answer[name], value) for name, value in promised.items())
        )
    if isinstance(promised, list):
        return isinstance(answer, list) and len(answer) == len(promised) and all(map(same, answer, promised))
    return type(answer) is type(promised) and answer == promised


def curl(command: str, url: str) -> str:
    """What a command of the page prints, asked of the host at `url`."""
    assert command.startswith("curl ") and ADDRESS in command
    done = subprocess.run(
        ["bash", "-c", command.replace(ADDRESS, url)], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def install(folder: Path) -> str:
    """Make a project count as installed wherever its folder is on the import path, as `pip install -e` does. Returns
    the plugin's name."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, module)] = project["entry-points"]["golem_host"].items()
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[golem_host]\n{name} = {module}\n")
    return name


class Reader:
    """Somebody who follows the whole page, in a folder for each of its projects."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._project = folder
        self._projects = 0
        self._words: list[str] = []
        self._host: Command | None = None
        self._stack = ExitStack()
        self.ran: list[str] = []

    def follow(self) -> None:
        """From top to bottom. AssertionError where the page promises what does not come."""
        with self._stack:
            steps = iter([*blocks(), None])
            block = next(steps)
            while block is not None:
                following = next(steps)
                if block.path is not None:
                    self._write(block)
                elif block.language in ("shell", "sh", "bash"):
                    promised = following if following and following.language in ("json", "text") else None
                    for command in block.text.strip().splitlines():
                        self._run(command, promised)
                    following = next(steps) if promised else following
                else:
                    assert block.language == "", f"a block that nobody runs:\n{block.text}"  # a drawing
                block = following

    def _write(self, block: Block) -> None:
        assert block.path
        self._stop()
        if block.path == "pyproject.toml":
            self._projects += 1
            self._project = self._folder / str(self._projects)
        path = self._project / block.path
        path.parent.mkdir(parents=True, exist_ok=True)
        # A model that has learnt nothing does as well.
        path.write_text(re.sub(r"(STEPS = .*, )\d+$", r"\g<1>3", block.text, flags=re.MULTILINE), encoding="utf-8")
        if block.path.endswith(".toml"):
            install(self._project)

    def _run(self, command: str, promised: Block | None) -> None:
        self.ran.append(command)
        words = shlex.split(command)
        if words[:2] == ["pip", "install"]:
            return
        if words[0] == "golem-host" and words[1] == "--enable":
            self._stop()
            self._words = words[1:]
        elif words[0] == "curl":
            _compare(curl(command, self._url()), promised)
        elif words[0] == "golem-host":
            _compare(self._done([sys.executable, "-P", "-m", "golem_host", *words[1:]]), promised)
        else:
            assert words[0] == "python"
            _compare(self._done(["bash", "-c", f"{shlex.quote(sys.executable)} {command[len('python ') :]}"]), promised)

    def _url(self) -> str:
        """Of a host that runs the files as they are now."""
        if self._host is None:
            words = [*self._words, "--addr", "127.0.0.1:0"]
            self._host = Command(*words, env=self._environment(), cwd=str(self._project))
            self._stack.enter_context(self._host)
        return self._host.url

    def _stop(self) -> None:
        self._host = None
        self._stack.close()

    def _done(self, words: list[str]) -> str:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GOLEM_")}
        done = subprocess.run(
            words,
            cwd=self._project,
            env={**own, **self._environment()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        paths = [str(self._project), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(paths), "GOLEM_HOME": str(self._folder / "home")}


def _compare(output: str, promised: Block | None) -> None:
    """Every line of a `text` block is one of the output's, in their order, `...` standing for anything in it."""
    if promised is None:
        return
    if promised.language == "json":
        assert same(json.loads(output), json.loads(promised.text)), output
        return
    lines = iter(output.splitlines())
    for line in filter(None, promised.text.splitlines()):
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert any(re.fullmatch(pattern, each) for each in lines), f"no line {line!r} in\n{output}"


def fresh_environment(folder: Path) -> Path:
    """A new virtualenv that sees what is installed beside the tests, golem-host among it; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text("\n".join(_installed_packages()) + "\n", encoding="utf-8")
    return folder / "bin/python"


def _installed_packages() -> Iterator[str]:
    yield from (path for path in sys.path if path.endswith("site-packages"))


def install_plainly(python: Path, folder: Path) -> None:
    """`pip install .`; where pip is told that there is no index, with the build tools that are there."""
    offline = ["--no-build-isolation"] if os.environ.get("PIP_NO_INDEX") else []
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *offline, "."]
    subprocess.run(words, cwd=folder, check=True, timeout=600)
    shutil.rmtree(folder / "build", ignore_errors=True)
