"""`golem-host plugins`: what is installed, what it serves, and what is wrong with what does not load."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Sequence

from golem_host import plugins
from golem_host.plugins import Examination
from golem_host.tables import table

HEADINGS = ("NAME", "DISTRIBUTION", "HOOKS", "STATE", "SERVES")
NARROWEST = 40
"""Columns of the last cell at least: on a narrow terminal lines are longer than it is."""


def list_plugins(*, as_json: bool) -> int:
    """Print every installed plugin. 0 also where some do not load: nothing needs them as long as nothing names them."""
    examined = plugins.examine_all()
    if as_json:
        print(json.dumps([_as_json(one) for one in examined], indent=2))
    elif examined:
        print(_table(examined))
        broken = [one for one in examined if one.error is not None]
        print(f"\n{_what_next(len(examined) - len(broken), len(broken))}")
    else:
        print("no plugins are installed")
    return 0


def _table(examined: Sequence[Examination]) -> str:
    rows = [
        (
            one.info.name,
            f"{one.info.distribution} {one.info.version}",
            "" if one.hook_api is None else f"version {one.hook_api}",
            "loads" if one.error is None else "broken",
        )
        for one in examined
    ]
    used = sum(max(map(len, column)) + 2 for column in zip(HEADINGS[:-1], *rows, strict=True))
    width = max(shutil.get_terminal_size((100, 24)).columns - used, NARROWEST)
    return table(HEADINGS, [(*row, _last_cell(one, width)) for row, one in zip(rows, examined, strict=True)])


def _last_cell(one: Examination, width: int) -> str:
    """The routes by their methods, or why the plugin does not load."""
    if one.error is not None:
        return _wrapped(one.error, width)
    paths: dict[str, list[str]] = {}
    for route in one.routes:
        paths.setdefault(route.method, []).append(_path(route.path))
    return "\n".join(_wrapped(f"{method} {', '.join(each)}", width) for method, each in paths.items())


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _what_next(good: int, broken: int) -> str:
    parts = []
    if good:
        parts.append("golem-host --enable NAME,NAME serves plugins; with --help it lists their flags.")
    if broken:
        parts.append("What is broken does no harm until --enable names it.")
    return " ".join(parts)


def _path(path: str) -> str:
    """A route's path without the types of its parameters."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _as_json(one: Examination) -> dict[str, object]:
    return {
        "name": one.info.name,
        "distribution": one.info.distribution,
        "version": one.info.version,
        "module": one.info.value,
        "hook_api": one.hook_api,
        "loads": one.error is None,
        "error": one.error,
        "routes": [{"method": route.method, "path": route.path, "summary": route.summary} for route in one.routes],
        "settings": [spec.name for spec in one.settings],
    }
