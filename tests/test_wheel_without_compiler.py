"""Built where there is no compiler, the wheel has no kernels, says so in one line when it starts, and answers."""

from __future__ import annotations

import importlib.util
import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from golem_host.testing.command import Command
from golem_host.testing.tiny import tiny_gguf

ROOT = Path(__file__).parents[1]
OUT_OF_REACH = "No matching distribution found for scikit-build-core"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built with a compiler that does not exist."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    if importlib.util.find_spec("scikit_build_core"):  # else pip fetches it
        words.append("--no-build-isolation")
    environment = {**os.environ, "CXX": str(folder / "no-compiler")}
    built = subprocess.run(words, env=environment, capture_output=True, text=True)
    if OUT_OF_REACH in built.stderr:
        pytest.skip("the package index is out of reach")
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture
def python(wheel: Path, tmp_path: Path) -> str:
    """An interpreter that has the wheel, and else what this one has."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    # Behind its own: what is installed there as golem-host is not what is imported.
    (packages / "behind.pth").write_text("\n".join(site.getsitepackages()))
    return str(folder / "bin/python")


def test_it_fits_every_machine_and_has_no_kernels(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "golem_host/kernels/library.py" in names
    shaders = {str(path.relative_to(ROOT)) for path in ROOT.glob("golem_host/devices/vulkan/shaders/*.spv")}
    assert shaders and shaders <= set(names)
    templates = {str(path.relative_to(ROOT)) for path in ROOT.glob("golem_host/plugin_template/*")}
    assert templates and templates <= set(names)
    assert not [name for name in names if name.endswith((".so", ".dylib", ".cpp", ".h"))]


def test_it_says_that_it_is_slow_and_answers(python: str, tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf", "qwen3", quantization="Q4_0", context=256)
    words = ("--enable", "chat", "--chat-model", str(model), "--addr", "127.0.0.1:0")
    with Command(*words, python=python, env={"GOLEM_HOME": str(tmp_path), "PYTHONPATH": ""}) as command:
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
        answer = httpx.post(f"{command.url}/v1/chat/completions", json=body, timeout=120)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["completion_tokens"] > 0
    (line,) = [line for line in command.lines if "computing with torch, slowly" in line]
    assert "no kernel library" in line and str(Path(python).parents[1]) in line
    assert "install golem-host with a C++ compiler at hand" in line
