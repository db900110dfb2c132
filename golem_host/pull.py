"""`golem-host pull`, and the models of `--demo`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from golem_host import demo, hub
from golem_host.check import check
from golem_host.config import NamedPath, Settings
from golem_host.errors import OperatorError, UsageError
from golem_host.hookspecs import DemoModel
from golem_host.parsers import show_size
from golem_host.plugins import PluginSet
from golem_host.progress import ProgressLine


def pull(name: str, plugins: PluginSet, settings: Settings) -> int:
    """Fetch `demo` or `hf.co/OWNER/REPO[:QUANT]` into the model folder and say what it is."""
    if name == "demo":
        return _pull_demo(plugins, settings)
    reference = hub.parse_reference(name)
    if reference is None:
        raise UsageError(f"cannot pull {name!r}; expected demo or hf.co/OWNER/REPO[:QUANT]")
    with _Lines() as lines:
        pulled = hub.pull(reference, settings["model-folder"], lines)
    check(pulled.files[0], plugins, settings, as_json=False)
    return 0


class _Lines:
    """A line of progress for each file that is fetched."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._file: hub.RemoteFile | None = None

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def chosen(self, files: Sequence[hub.RemoteFile]) -> None:
        """Nothing to show yet."""

    def fetching(self, file: hub.RemoteFile, have: int) -> None:
        if file is not self._file:
            self._file = file
            name = file.name.rpartition("/")[2]
            self._line = self._stack.enter_context(ProgressLine(f"fetching {name}", file.size))
        self._line.update(have)

    def verifying(self, file: hub.RemoteFile) -> None:
        self._stack.close()


def _pull_demo(plugins: PluginSet, settings: Settings) -> int:
    models = demo_models(plugins)
    if not models:
        raise OperatorError("no installed plugin has a demo model; see golem-host plugins")
    for model in models:
        path = demo.fetch_demo(model, settings["model-folder"])
        print(f"{model.name} ({show_size(model.bytes)}, {model.licence}): {path}")
    return 0


def demo_models(plugins: PluginSet) -> list[DemoModel]:
    return [model for _, models in plugins.each("golem_demo") for model in models]


def with_demo_models(plugins: PluginSet, settings: Settings) -> Settings:
    """With `--demo`: the settings completed by each demo model whose setting names no model yet; fetched if need be."""
    if not settings["demo"]:
        return settings
    for model in demo_models(plugins):
        if not settings[model.setting]:
            path = demo.fetch_demo(model, settings["model-folder"])
            settings = settings.replaced("--demo", **{model.setting: (NamedPath(None, path),)})
    return settings
