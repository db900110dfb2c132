"""`golem-host pull`, and the models of `--demo`."""

from __future__ import annotations

from golem_host import demo, hub
from golem_host.check import check
from golem_host.config import NamedPath, Settings
from golem_host.errors import OperatorError, UsageError
from golem_host.hookspecs import DemoModel
from golem_host.parsers import show_size
from golem_host.plugins import PluginSet


def pull(name: str, plugins: PluginSet, settings: Settings) -> int:
    """Fetch `demo` or `hf.co/OWNER/REPO[:QUANT]` into the model folder and say what it is."""
    if name == "demo":
        return _pull_demo(plugins, settings)
    reference = hub.parse_reference(name)
    if reference is None:
        raise UsageError(f"cannot pull {name!r}; expected demo or hf.co/OWNER/REPO[:QUANT]")
    path = hub.pull(reference, settings["model-folder"])
    check(path, plugins, settings, as_json=False)
    return 0


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
