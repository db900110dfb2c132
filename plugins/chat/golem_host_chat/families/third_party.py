"""Families that other plugins bring, by the hook `golem_chat_families`."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from golem_host.api import PluginError, PluginSet
from golem_host.printable import described
from golem_host.weights.gguf import Gguf, GgufError
from golem_host_chat.families.base import Family


@dataclass(frozen=True)
class Brought:
    """Which plugin brings a family, and where it is: `package.module:Class`."""

    plugin: str
    home: str


def brought(plugins: PluginSet, own: Collection[str]) -> dict[str, Brought]:
    """The families of all enabled plugins, by architecture; nothing of them is imported.

    Raises `PluginError` for one that is among `own` or that two plugins bring, and for what is not an architecture and
    a place.
    """
    found: dict[str, Brought] = {}
    for plugin, homes in plugins.each("golem_chat_families"):
        if not isinstance(homes, Mapping):
            raise PluginError(f"plugin {plugin}: golem_chat_families gives {homes!r}; a mapping is expected")
        for architecture, home in homes.items():
            if not isinstance(home, str) or not all(home.partition(":")):
                raise PluginError(
                    f"plugin {plugin}: family {architecture!r} is at {home!r}, not at package.module:Class"
                )
            if architecture in own:
                raise PluginError(f"plugin {plugin}: family {architecture!r} is served by plugin chat itself")
            if other := found.get(architecture):
                raise PluginError(
                    f"family {architecture!r} is brought by plugin {other.plugin} and by plugin {plugin}; "
                    "enable one of them"
                )
            found[architecture] = Brought(plugin, home)
    return found


def made(gguf: Gguf, brought: Brought) -> Family:
    """The family of a file, made by the plugin that brings it. A fault of that plugin is a `GgufError` that names it:
    it costs this file alone."""
    module, _, name = brought.home.partition(":")
    try:
        family = getattr(importlib.import_module(module), name)(gguf)
    except GgufError:
        raise
    except Exception as error:
        raise GgufError(
            gguf.path,
            f"family '{gguf.architecture}' of plugin {brought.plugin} ({brought.home}) failed: {described(error)}",
        ) from error
    if not isinstance(family, Family):
        raise GgufError(
            gguf.path, f"{brought.home} of plugin {brought.plugin} gives no golem_host_chat.families.Family"
        )
    return family
