"""The command `golem-host`: from words to settings to one of the commands, and from errors to exit codes.

0: done, or stopped as asked. 1: a model, plugin or file is at fault. 2: the command line, environment or settings file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from golem_host import arguments, plugins
from golem_host.arguments import Arguments
from golem_host.config import CORE, Setting, Settings, misspelt, resolve
from golem_host.errors import OperatorError, UsageError
from golem_host.help import command_help, help_text
from golem_host.plugins import PluginSet
from golem_host.tables import table

LOADING = {"serve": "golem-host", "bench": "golem-host bench"}
"""Commands that load models, so that plugins must be enabled for them; how each is written."""


def entry() -> NoReturn:
    """The command's process: run it, then leave.

    Threads of a server that has stopped may still be ending, and granian's abort a process whose interpreter is taken
    down under them; nothing is left to clean up by then, so the interpreter is left as it is.
    """
    _make_streams_writable()
    code = main()
    if "granian" in sys.modules:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _make_streams_writable() -> None:
    """Whatever a file or model is called can be printed, and to no one when whoever started us gave us no output."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code. `words` defaults to the process's own arguments."""
    try:
        code = _run(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
        return code
    except OperatorError as error:
        print(f"golem-host: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output left (`golem-host models | head`); keep the interpreter from complaining at exit.
        _drop_output()
        return 0
    except OSError as error:
        # Such as a full disk under the file our output goes to.
        _drop_output()
        print(f"golem-host: {error}", file=sys.stderr)
        return 1


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    first_look = arguments.parse(words, CORE)
    if "version" in first_look.switches:
        from golem_host.host import host_version

        print(f"golem-host {host_version()}")
        return 0
    if "help" in first_look.switches and first_look.command != "serve":
        print(command_help(first_look.command))
        return 0
    if first_look.command == "plugins":
        arguments.parse(words, CORE, explain_unknown=_owner_of)
        if "help-all" not in first_look.switches:
            from golem_host.plugin_list import list_plugins

            return list_plugins(as_json="json" in first_look.switches)
    if first_look.command == "devices":
        arguments.parse(words, CORE, explain_unknown=_owner_of)
        if "help-all" not in first_look.switches:
            from golem_host.device_list import list_devices

            return list_devices(as_json="json" in first_look.switches)
    if first_look.command == "new-plugin":
        parsed = arguments.parse(words, CORE, explain_unknown=_owner_of)
        if "help-all" not in first_look.switches:
            from golem_host.new_plugin import new_plugin

            return new_plugin(parsed.operands[0], Path())
    wanted = _boot_settings(first_look)
    if first_look.switches & {"help", "help-all"}:
        everything = "help-all" in first_look.switches
        specs = _specs_of_all() if everything else plugins.load(wanted["enable"]).settings()
        print(help_text(specs, everything=everything))
        return 0
    if not wanted["enable"] and not wanted["demo"] and first_look.command in LOADING:
        arguments.parse(words, CORE, explain_unknown=_owner_of)
        _warn_of_near_misses([*CORE, *_specs_of_all()])
    enabled = _enabled(first_look.command, wanted)
    specs = [*CORE, *enabled.settings()]
    parsed = arguments.parse(words, specs, explain_unknown=_owner_of)
    settings = resolve(specs, parsed.flags, os.environ, wanted["config"], explain_unknown=_owner_of)
    if settings["demo"] and not settings["enable"]:
        settings = settings.replaced(settings.source("demo"), enable=enabled.names)
    _warn_of_near_misses(settings.specs)
    return _dispatch(parsed, enabled, settings)


def _dispatch(parsed: Arguments, enabled: PluginSet, settings: Settings) -> int:
    as_json = "json" in parsed.switches
    if parsed.command == "config":
        return show_config(settings, as_json=as_json)
    if parsed.command == "models":
        from golem_host.inventory import list_models

        return list_models(enabled, settings, as_json=as_json)
    if parsed.command == "check":
        from golem_host.check import check

        return check(Path(parsed.operands[0]), enabled, settings, as_json=as_json)
    if parsed.command == "pull":
        from golem_host.pull import pull

        return pull(parsed.operands[0], enabled, settings)
    from golem_host.pull import with_demo_models

    settings = with_demo_models(enabled, settings)
    if parsed.command == "bench":
        from golem_host.bench import bench

        return bench(settings, enabled, as_json=as_json)
    from golem_host.serve import serve

    return serve(settings, enabled)


def _boot_settings(first_look: Arguments) -> Settings:
    """The settings that decide which plugins are loaded, before the others can be known."""
    boot = [spec for spec in CORE if spec.name in ("enable", "demo", "config")]
    flags = {spec.name: first_look.flags[spec.name] for spec in boot if spec.name in first_look.flags}
    config = resolve(boot, flags, os.environ, None)["config"]
    return resolve(boot, flags, os.environ, config, explain_unknown=None)


def _enabled(command: str, wanted: Settings) -> PluginSet:
    """The plugins of `--enable`; else those with demo models (`--demo`), or all that load where nothing is served."""
    if wanted["enable"]:
        return plugins.load(wanted["enable"])
    examined = plugins.examine_all()
    if wanted["demo"]:
        names = [one.info.name for one in examined if one.demo]
        if names:
            return plugins.load(names)
        raise UsageError("--demo: no installed plugin that loads has a demo model; see golem-host plugins")
    if command in LOADING:
        names = [one.info.name for one in examined if one.error is None]
        if not names:
            raise UsageError("no plugin is enabled, and none that loads is installed; see golem-host plugins")
        name = LOADING[command]
        raise UsageError(
            f"no plugin is enabled; try {name} --demo, or choose: {name} --enable {names[0]} "
            f"(installed: {', '.join(names)}; golem-host plugins tells more)"
        )
    for error in dict.fromkeys(one.error for one in examined if one.error):
        print(f"golem-host: left out: {error}", file=sys.stderr)
    return plugins.load(one.info.name for one in examined if one.error is None)


def _specs_of_all() -> list[Setting]:
    return [spec for one in plugins.examine_all() for spec in one.settings]


def _warn_of_near_misses(specs: Sequence[Setting]) -> None:
    """Name the variables that look like a setting's, misspelt. Others that begin alike may be somebody else's."""
    if not misspelt(specs, os.environ):
        return
    for variable, hint in misspelt([*CORE, *_specs_of_all()], os.environ):
        print(f"golem-host: warning: variable {variable} is no setting{hint}", file=sys.stderr)


def _owner_of(name: str) -> str | None:
    """Why `name` is unknown when it belongs to a plugin that is installed but not enabled."""
    for one in plugins.examine_all():
        for spec in one.settings:
            if name == spec.name or (spec.is_flag and name == f"no-{spec.name}"):
                return f"belongs to plugin {one.info.name}, which is not enabled; add it to --enable"
    return None


def show_config(settings: Settings, *, as_json: bool) -> int:
    """`golem-host config`."""
    rows = [(spec.name, spec.show(settings[spec.name]), settings.source(spec.name)) for spec in settings.specs]
    if as_json:
        print(json.dumps({name: {"value": value, "source": source} for name, value, source in rows}, indent=2))
    else:
        print(table(("SETTING", "VALUE", "SOURCE"), rows))
    return 0
