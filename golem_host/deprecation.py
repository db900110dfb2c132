"""What is on its way out: it works as before and says once, as a warning and in the log, which version ends it.

The rules are in docs/plugins/publishing.md. An argument of a hook is deprecated where the hook is specified:

    @hookspec(warn_on_impl_args={"colour": Deprecation("golem_paint's colour", ends="0.3", instead="name hue")})
    def golem_paint(hue, colour): ...
"""

from __future__ import annotations

import functools
import importlib
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import pluggy

log = logging.getLogger("golem_host.deprecation")

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_told: set[str] = set()
_lock = threading.Lock()


class Deprecation(DeprecationWarning):
    """`what` is deprecated (a name, an argument); `ends` is the version of golem-host that is without it, `instead`
    says what to do (`use hue`).
    """

    def __init__(self, what: str, *, ends: str, instead: str) -> None:
        super().__init__(f"{what} is deprecated and ends with golem-host {ends}: {instead}")


def warn_once(deprecation: Deprecation, *, stacklevel: int = 1) -> None:
    """Warn of it and log it, the first time that this process is told of it. `stacklevel` 1 blames the caller."""
    if _first(str(deprecation)):
        log.warning("%s", deprecation)
        warnings.warn(deprecation, stacklevel=stacklevel + 1)


def deprecated(*, ends: str, instead: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Mark a function or method as deprecated: its first call warns."""

    def mark(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        deprecation = Deprecation(f"{function.__module__}.{function.__qualname__}", ends=ends, instead=instead)

        @functools.wraps(function)
        def warned(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            warn_once(deprecation, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return mark


def old_names(module: str, names: Mapping[str, tuple[str, str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a module some of whose names have moved: old name to new place (`package.module.name`) and
    the version that ends the old one. Anything else is an AttributeError, as ever.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, ends = names[name]
        warn_once(Deprecation(f"{module}.{name}", ends=ends, instead=f"use {place}"), stacklevel=2)
        home, _, new = place.rpartition(".")
        return getattr(importlib.import_module(home), new)

    return get


def log_hooks(manager: pluggy.PluginManager, plugin: Any, who: str) -> None:
    """Log which deprecated hooks and arguments of hooks a registered plugin has. pluggy has warned of them when it was
    registered, which Python shows to nobody who does not ask.
    """
    for notice in _hook_notices(manager, plugin):
        if _first(text := f"plugin {who}: {notice}"):
            log.warning("%s", text)


def _hook_notices(manager: pluggy.PluginManager, plugin: Any) -> Iterator[Warning]:
    for caller in manager.get_hookcallers(plugin) or ():
        if caller.spec is None:
            continue
        if caller.spec.warn_on_impl is not None:
            yield caller.spec.warn_on_impl
        taken = {name for each in caller.get_hookimpls() if each.plugin is plugin for name in each.argnames}
        yield from (notice for name, notice in (caller.spec.warn_on_impl_args or {}).items() if name in taken)


def _first(text: str) -> bool:
    with _lock:
        if text in _told:
            return False
        _told.add(text)
        return True
