"""`golem-host check`: what a file or directory is, which plugin takes it, and whether it would be served here."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from golem_host.config import NamedPath, Settings
from golem_host.errors import ModelFileError, OperatorError
from golem_host.hookspecs import Identified
from golem_host.memory import available_bytes
from golem_host.parsers import show_size
from golem_host.plugins import PluginSet


def identify(path: Path, plugins: PluginSet, settings: Settings) -> list[Identified]:
    """What each plugin that knows this kind of file says of it. A refusal raised by a plugin becomes its problem, and
    the size, where a plugin tells none, is that of all that is there.
    """
    answers = []
    for plugin in plugins.names:
        try:
            found = plugins.ask(plugin, "golem_identify", path=path, settings=settings)
        except ModelFileError as error:
            found = [Identified(plugin, "unknown", problems=(error.message,))]
        answers.extend(answer if answer.size_bytes else replace(answer, size_bytes=size_of(path)) for answer in found)
    return answers


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files of a directory."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def check(path: Path, plugins: PluginSet, settings: Settings, *, as_json: bool) -> int:
    """Print the findings. 0 when a plugin would serve it and it fits in memory now, else 1.

    A plain name may be one of the model folder.
    """
    path = NamedPath(None, path).find(settings["model-folder"], directories=True)
    if not path.exists():
        raise OperatorError(f"{path}: no such file or directory")
    answers = identify(path, plugins, settings)
    free = available_bytes()
    verdicts = [(answer, _problems(answer, free)) for answer in answers]
    good = any(not problems for _, problems in verdicts)
    if as_json:
        found = [{**asdict(answer), "rows": dict(answer.rows), "problems": problems} for answer, problems in verdicts]
        print(json.dumps({"path": str(path), "served": good, "memory_available": free, "plugins": found}, indent=2))
    elif not answers:
        print(f"{path}: no plugin takes this ({', '.join(plugins.names) or 'none is installed'})")
    for answer, problems in verdicts if not as_json else ():
        print(_report(path, answer, problems, free))
    return 0 if good else 1


def _problems(answer: Identified, free: int | None) -> list[str]:
    problems = list(answer.problems)
    if answer.memory is not None and free is not None and answer.memory > free:
        problems.append(f"needs {show_size(answer.memory)} of memory, {show_size(free)} are free")
    return problems


def _report(path: Path, answer: Identified, problems: list[str], free: int | None) -> str:
    rows = [("plugin", answer.plugin), ("family", answer.family)]
    rows += [("size", show_size(answer.size_bytes)), *answer.rows]
    if answer.memory is not None:
        rows.append(("memory", f"needs {show_size(answer.memory)}, {show_size(free) if free else 'unknown'} free"))
    if problems:
        rows += [("refused", problem) for problem in problems]
    elif answer.setting:
        rows.append(("serve it", f"golem-host --enable {answer.plugin} --{answer.setting} {path}"))
    width = max(len(label) for label, _ in rows)
    return "\n".join([str(path), *(f"  {label.ljust(width)}  {text}" for label, text in rows)])
