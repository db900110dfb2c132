"""Plugins: finding what is installed, loading what is enabled, and saying what is wrong with the rest."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pluggy

from golem_host import hook_answers, hookspecs
from golem_host.config import CORE, Setting, nearest
from golem_host.deprecation import log_hooks
from golem_host.entry_points import PluginInfo, installed
from golem_host.errors import GolemError, OperatorError, PluginError, UsageError
from golem_host.hookspecs import DemoModel, Route
from golem_host.printable import described


class PluginSet:
    """The enabled plugins. `hook.<name>(...)` calls all of them; `each` keeps apart who answered what."""

    def __init__(self, manager: pluggy.PluginManager, infos: Sequence[PluginInfo]) -> None:
        self._manager = manager
        self.infos = tuple(infos)
        self.names = tuple(info.name for info in infos)
        self.hook = manager.hook

    def ask(self, plugin: str, hook: str, **arguments: Any) -> list[Any]:
        """The answer of one plugin in a list, empty when it has no such hook or answered None. The hook may ask for
        `plugins`, which is this set.

        A fault inside the plugin, or an answer that is none, is a PluginError that names it; errors meant for the
        operator pass.
        """
        module = self._manager.get_plugin(plugin)
        caller = self._manager.subset_hook_caller(hook, self._manager.get_plugins() - {module})
        try:
            answers = caller(plugins=self, **arguments)
        except GolemError:
            raise
        except (Exception, SystemExit) as error:
            what = f"failed in {hook}: {described(error)}"
            raise PluginError(f"plugin {self._who(plugin)} {what}; {REPORT}") from error
        for answer in answers:
            if (fault := hook_answers.fault(hook, answer)) is not None:
                raise PluginError(f"plugin {self._who(plugin)} failed in {hook}: {fault}; {REPORT}")
        return answers

    def _who(self, plugin: str) -> str:
        return _who(next(info for info in self.infos if info.name == plugin))

    def each(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """(plugin, answer) of every enabled plugin that has the hook, in the order of `--enable`; see `ask`."""
        return [(name, answer) for name in self.names for answer in self.ask(name, hook, **arguments)]

    def serves_models(self, name: str) -> bool:
        """Whether the plugin brings models: a plugin without `golem_models` has routes only and needs none."""
        return hasattr(self._manager.get_plugin(name), "golem_models")

    def settings(self) -> list[Setting]:
        """The plugins' settings, each with its `plugin` filled in. PluginError when two claim one name or variable."""
        owners = {spec.name: "golem-host itself" for spec in CORE}
        variables = {variable: "golem-host itself" for spec in CORE for variable in spec.environment_names}
        specs = []
        for plugin, own in self.each("golem_settings"):
            for spec in own:
                if spec.name in owners:
                    raise PluginError(
                        f"plugin {plugin}: setting {spec.name} already belongs to {owners[spec.name]}; "
                        "enable one of them, or ask the plugin's authors to rename it"
                    )
                owners[spec.name] = f"plugin {plugin}"
                for variable in spec.environment_names:
                    if variable in variables:
                        raise PluginError(
                            f"plugin {plugin}: {variable} already belongs to {variables[variable]}; "
                            "enable one of them, or ask the plugin's authors to rename it"
                        )
                    variables[variable] = f"plugin {plugin}"
                specs.append(replace(spec, plugin=plugin))
        return specs


def load(names: Iterable[str]) -> PluginSet:
    """Import the named plugins, and only those, and check them.

    Raises UsageError for a name that nothing installed has (and lists what there is), PluginError for a name that two
    distributions claim, a module that fails to import, another hook version, a hook that neither the host nor an
    enabled plugin has, or one of a plugin's own that is there already.
    """
    available = installed()
    manager = pluggy.PluginManager(hookspecs.GROUP)
    manager.add_hookspecs(hookspecs)
    modules: list[tuple[PluginInfo, ModuleType]] = []
    for name in dict.fromkeys(names):
        info = _only(name, available)
        module = _import(info)
        _check_version(info, module)
        _add_own_hooks(manager, info, module)
        modules.append((info, module))
    for info, module in modules:
        try:
            manager.register(module, info.name)
            manager.check_pending()
            log_hooks(manager, module, _who(info))
        except (pluggy.PluginValidationError, ValueError) as error:
            raise PluginError(f"plugin {_who(info)}: {' '.join(str(error).split())}; {_UPDATE}") from error
    return PluginSet(manager, [info for info, _ in modules])


def _add_own_hooks(manager: pluggy.PluginManager, info: PluginInfo, module: ModuleType) -> None:
    """Make known the hooks that a plugin has for other plugins."""
    own = [name for name in dir(module) if manager.parse_hookspec_opts(module, name) is not None]
    for name in own:
        if hasattr(manager.hook, name):
            raise PluginError(
                f"plugin {_who(info)}: there is a hook {name!r} already; leave {info.name} out of --enable"
            )
    if own:
        manager.add_hookspecs(module)


REPORT = "tell its authors, or leave it out of --enable"
"""What to do about a plugin's fault."""
_UPDATE = "install a release of it made for this golem-host, or leave it out of --enable"


def _who(info: PluginInfo) -> str:
    return f"{info.name} ({info.distribution} {info.version})"


def _only(name: str, available: Sequence[PluginInfo]) -> PluginInfo:
    matches = [info for info in available if info.name == name]
    if not matches:
        names = sorted({info.name for info in available})
        listed = f"installed: {', '.join(names)}" if names else "no plugins are installed"
        raise UsageError(f"no plugin named {name!r} is installed{nearest(name, names)}; {listed}")
    if len(matches) > 1:
        claimants = " and ".join(f"{info.distribution} {info.version}" for info in matches)
        raise PluginError(f"plugin {name!r} is claimed by {claimants}; uninstall one of them")
    if matches[0].problem is not None:
        raise PluginError(f"plugin {_who(matches[0])}: {matches[0].problem}")
    return matches[0]


def _import(info: PluginInfo) -> ModuleType:
    module_name = info.value.strip()
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise PluginError(
            f"plugin {_who(info)}: its entry point is {info.value!r}, expected the name of a module; {REPORT}"
        )
    try:
        return importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A module that calls sys.exit at its top must not end the host.
        raise PluginError(
            f"plugin {_who(info)} could not be imported from {module_name}: {described(error)}; "
            f"reinstall {info.distribution}, or leave {info.name} out of --enable"
        ) from error


def _check_version(info: PluginInfo, module: ModuleType) -> None:
    version = getattr(module, "GOLEM_HOST_API", None)
    if version != hookspecs.API or isinstance(version, bool):
        says = "does not say GOLEM_HOST_API" if version is None else f"is made for hook version {version!r}"
        raise PluginError(f"plugin {_who(info)} {says}, this golem-host has version {hookspecs.API}; {_UPDATE}")


@dataclass(frozen=True)
class Examination:
    """What importing one plugin shows. `error` is None when it loads."""

    info: PluginInfo
    hook_api: int | None
    routes: tuple[Route, ...]
    settings: tuple[Setting, ...]
    demo: tuple[DemoModel, ...]
    error: str | None


def examine(info: PluginInfo) -> Examination:
    """Load one plugin alone. Never raises: what is wrong with it stands in `error`."""
    try:
        plugins = load([info.name])
        routes = tuple(route for _, own in plugins.each("golem_routes") for route in own)
        demo = tuple(model for _, own in plugins.each("golem_demo") for model in own)
        return Examination(info, hookspecs.API, routes, tuple(plugins.settings()), demo, None)
    except Exception as error:
        what = str(error) if isinstance(error, OperatorError) else described(error)
        version = getattr(sys.modules.get(info.value), "GOLEM_HOST_API", None)
        return Examination(info, version if isinstance(version, int) else None, (), (), (), what)


def examine_all() -> list[Examination]:
    """Every installed plugin, examined."""
    return [examine(info) for info in installed()]
