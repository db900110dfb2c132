"""The plugin as the commands see it, and its table of fields."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from golem_host.testing.tiny_krea2 import tiny_krea2_directory
from golem_host_krea2.bar import Bar
from golem_host_krea2.picture import Progress, Stage
from golem_host_krea2.routes.unserved import UNSERVED

README = Path(__file__).parents[1] / "README.md"


def golem_host(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "golem_host", *arguments], capture_output=True, text=True)


def test_check_and_a_missing_role(tmp_path: Path) -> None:
    root = tiny_krea2_directory(tmp_path / "comfy", dtype="FP8")
    done = golem_host("check", "--enable", "krea2", str(root))
    assert done.returncode == 0, done.stderr
    assert "pictures" in done.stdout and "F8_E4M3" in done.stdout
    (root / "models/vae/qwen_image_vae.safetensors").unlink()
    done = golem_host("--enable", "krea2", "--krea2-model", str(root), "--addr", "127.0.0.1:0")
    assert done.returncode == 1
    assert "no VAE of Krea 2; searched" in done.stderr and str(root / "models" / "vae") in done.stderr


def test_the_readme_lists_the_fields_that_are_refused() -> None:
    [row] = [line for line in README.read_text().splitlines() if line.startswith("| `style`")]
    assert re.findall(r"`(\w+)`", row.split("|")[1]) == [name for name, _, _ in UNSERVED]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar() -> None:
    class Request:
        width, height = 512, 256

    progress = Progress("x", 4, Stage.DRAWING, step=1, fraction=0.5)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        bar = Bar(Request(), stream)  # type: ignore[arg-type]
        bar.show(progress)
        bar.show(progress)  # too soon to be written again
        bar.close(Stage.DONE)
    shown, ended, nothing = re.split(r"\r|\n", terminal.getvalue().lstrip("\r"))[:3]
    assert shown.strip() == "512x256 [############------------] step 2/4 drawing"
    assert ended.strip() == "512x256: done" and not nothing and not pipe.getvalue()


@pytest.mark.parametrize("flag", ["--krea2-model", "--krea2-keep", "--krea2-tokenizer", "--krea2-device"])
def test_help_names_the_settings_without_torch(flag: str) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['golem-host', '--enable', 'krea2', '--help']\n"
        "from golem_host.cli import entry; entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert flag in done.stdout
