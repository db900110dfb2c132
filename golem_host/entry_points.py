"""The plugins that are installed, as their entry points describe them; nothing of them is imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from golem_host.hookspecs import GROUP
from golem_host.printable import described


@dataclass(frozen=True)
class PluginInfo:
    """An installed plugin: `value` names its module. `problem` says why there is no entry point to go by; the name is
    then the distribution's.
    """

    name: str
    distribution: str
    version: str
    value: str
    problem: str | None = None


def installed() -> list[PluginInfo]:
    """All entry points of group `golem_host`, by name. One name may stand there twice: `golem_host.plugins.load`
    refuses it.
    """
    try:
        found = {_info(point) for point in metadata.entry_points(group=GROUP)}
    except Exception:  # The files of some distribution are damaged, perhaps of one that has nothing to do with us.
        distributions = {_identity(each)[0]: each for each in reversed(list(metadata.distributions()))}
        found = {info for each in distributions.values() for info in _infos(each)}
    return sorted(found, key=lambda info: (info.name, info.distribution))


def _info(point: metadata.EntryPoint) -> PluginInfo:
    return PluginInfo(point.name, *_identity(point.dist), point.value)


def _identity(distribution: metadata.Distribution | None) -> tuple[str, str]:
    """Name and version; `unknown` where a damaged distribution has none."""
    try:
        known = dict(distribution.metadata.items()) if distribution else {}  # type: ignore[attr-defined]
    except Exception:
        known = {}
    return known.get("Name") or "unknown", known.get("Version") or "unknown"


def _infos(distribution: metadata.Distribution) -> list[PluginInfo]:
    """The plugins of one distribution; one with a problem where its entry points cannot be read and may be plugins."""
    try:
        return [_info(point) for point in distribution.entry_points if point.group == GROUP]
    except Exception as error:
        name, version = _identity(distribution)
        if not _means_us(distribution, name):
            return []
        problem = f"its entry_points.txt cannot be read ({described(error)}); reinstall {name}"
        return [PluginInfo(name, name, version, "", problem)]


def _means_us(distribution: metadata.Distribution, name: str) -> bool:
    try:
        return f"[{GROUP}]" in (distribution.read_text("entry_points.txt") or "")
    except Exception:
        return name.startswith("golem-host-")
