"""What the host's hooks answer, checked where the answers arrive: what is wrong is said of the plugin at fault."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_HOOKSPECS = "golem_host.hookspecs"
SEQUENCES = {
    "golem_settings": ("golem_host.setting", "Setting"),
    "golem_models": ("golem_host.registry", "Model"),
    "golem_routes": (_HOOKSPECS, "Route"),
    "golem_demo": (_HOOKSPECS, "DemoModel"),
    "golem_bench": (_HOOKSPECS, "Workload"),
    "golem_metrics": (_HOOKSPECS, "Metric"),
}
"""Hooks that answer with a list or tuple, and of what: module and class."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WEBSOCKET")


def fault(hook: str, answer: Any) -> str | None:
    """What is wrong with the answer of a hook; None when nothing is, and for hooks of plugins' own."""
    if hook in SEQUENCES:
        module, name = SEQUENCES[hook]
        if not isinstance(answer, list | tuple):
            return f"expected a list of {name}, got {_kind(answer)}"
        wanted = getattr(importlib.import_module(module), name)
        for item in answer:
            if not isinstance(item, wanted):
                return f"expected a list of {name}, one of its items is {_kind(item)}"
        return _routes_fault(answer) if hook == "golem_routes" else None
    if hook == "golem_openapi" and not isinstance(answer, Mapping):
        return f"expected a dict of Operation, got {_kind(answer)}"
    if hook == "golem_identify" and not isinstance(answer, _identified()):
        return f"expected Identified or None, got {_kind(answer)}"
    return None


def _routes_fault(routes: Any) -> str | None:
    for route in routes:
        if route.method not in METHODS:
            return f"{route.path} has the unknown method {route.method!r}; known: {', '.join(METHODS)}"
        if not route.path.startswith("/"):
            return f"the path {route.path!r} does not begin with /"
    return None


def _identified() -> type:
    from golem_host.hookspecs import Identified

    return Identified


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
