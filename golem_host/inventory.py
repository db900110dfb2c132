"""`golem-host models`: the models that the settings name, and those that lie in the model folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from golem_host.check import identify
from golem_host.config import Settings
from golem_host.errors import ModelFileError
from golem_host.parsers import show_size
from golem_host.plugins import PluginSet
from golem_host.tables import table

_DEPTH = 4
"""How deep below the model folder files are looked for: OWNER/REPO/QUANT/FILE."""

_LATER_SHARD = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")


@dataclass(frozen=True)
class Entry:
    """One row. `served`: a setting names it. `problem` says why it cannot be served."""

    name: str
    plugin: str
    family: str
    quantization: str | None
    size_bytes: int
    path: str
    served: bool
    problem: str | None = None


def list_models(plugins: PluginSet, settings: Settings, *, as_json: bool) -> int:
    """Print both lists as one. 1 when a model that the settings name cannot be served, else 0."""
    entries = [*_named(plugins, settings)]
    known = {Path(entry.path).resolve() for entry in entries}
    entries += [entry for entry in _in_folder(plugins, settings) if Path(entry.path).resolve() not in known]
    if as_json:
        print(json.dumps([asdict(entry) for entry in entries], indent=2))
    elif not entries:
        print(f"no models: no setting names one and {settings['model-folder']} has none; try golem-host pull demo")
    else:
        print(_table(entries))
    return 1 if any(entry.served and entry.problem for entry in entries) else 0


def _named(plugins: PluginSet, settings: Settings) -> Iterator[Entry]:
    for plugin in plugins.names:
        try:
            models = [model for found in plugins.ask(plugin, "golem_models", settings=settings) for model in found]
        except ModelFileError as error:
            yield Entry("", plugin, "", "", 0, str(error.path), served=True, problem=error.message)
            continue
        for model in models:
            yield Entry(
                model.name, plugin, model.family, model.quantization, model.size_bytes, str(model.path), served=True
            )


def _in_folder(plugins: PluginSet, settings: Settings) -> Iterator[Entry]:
    for path in _candidates(settings["model-folder"], _DEPTH):
        for found in identify(path, plugins, settings):
            problem = "; ".join(found.problems) or None
            yield Entry(
                path.name.removesuffix(".gguf"), found.plugin, found.family, found.quantization, found.size_bytes,
                str(path), served=False, problem=problem,
            )  # fmt: skip


def _candidates(folder: Path, depth: int) -> Iterator[Path]:
    """Files and directories a model may be, without hidden ones and the later parts of split files."""
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return
    for child in children:
        if child.name.startswith(".") or _LATER_SHARD.search(child.name):
            continue
        yield child
        if depth > 1 and child.is_dir():
            yield from _candidates(child, depth - 1)


def _table(entries: list[Entry]) -> str:
    rows = [
        (
            entry.name,
            entry.family,
            show_size(entry.size_bytes) if entry.size_bytes else "",
            entry.quantization or "",
            entry.plugin,
            "yes" if entry.served and not entry.problem else "no",
            entry.path + (f"\ncannot be served: {entry.problem}" if entry.problem else ""),
        )
        for entry in entries
    ]
    return table(("NAME", "FAMILY", "SIZE", "QUANTIZATION", "PLUGIN", "SERVED", "FILE"), rows)
