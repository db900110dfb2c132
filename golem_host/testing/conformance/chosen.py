"""Which plugins `--golem-plugin` named, and the suite of each."""

from __future__ import annotations

import importlib
from typing import Any

from golem_host.errors import PluginError
from golem_host.plugins import installed, load

ATTRIBUTE = "GOLEM_HOST_CONFORMANCE"

names: tuple[str, ...] = ()


def suite_of(plugin: str) -> type[Any]:
    """The class that the plugin's module names, else one that knows its name only.

    Raises UsageError for a plugin that is not installed, and PluginError for a class that cannot be imported.
    """
    from golem_host.testing.conformance.suite import PluginConformance

    load([plugin])
    info = next(info for info in installed() if info.name == plugin)
    told = getattr(importlib.import_module(info.value.partition(":")[0].strip()), ATTRIBUTE, None)
    if told is None:
        return type(f"Test_{plugin}", (PluginConformance,), {"plugin": plugin})
    module, _, name = told.partition(":")
    try:
        return type(f"Test_{plugin}", (getattr(importlib.import_module(module), name),), {"plugin": plugin})
    except (ImportError, AttributeError) as error:
        raise PluginError(f"plugin {plugin}: {ATTRIBUTE} = {told!r} cannot be imported: {error}") from error
