"""The text of `--help`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

from golem_host.arguments import COMMANDS, JSON_COMMANDS, OPERANDS
from golem_host.config import CORE, Setting

_INDENT = 32


def help_text(plugin_specs: Sequence[Setting], *, everything: bool) -> str:
    """Commands, the host's flags, then each plugin's. `everything`: the plugins are all that are installed."""
    width = _width()
    lines = [
        "usage: golem-host [COMMAND] [FLAGS]",
        "",
        "Serves models behind the HTTP APIs that clients already speak.",
        "",
    ]
    lines.append("commands:")
    for command, what in COMMANDS.items():
        lines += _entry(" ".join(filter(None, (command, OPERANDS.get(command)))), what, width)
    lines += ["", "flags (each also as GOLEM_NAME in the environment and as a key of the settings file):"]
    for spec in CORE:
        lines += _entry(spec.usage, _meaning(spec), width)
    for plugin in dict.fromkeys(spec.plugin for spec in plugin_specs):
        lines += ["", f"flags of plugin {plugin}:"]
        for spec in plugin_specs:
            if spec.plugin == plugin:
                lines += _entry(spec.usage, _meaning(spec), width)
    lines += ["", "other flags:"]
    lines += _entry(
        "--help, --help-all", "this text, with the flags of the enabled plugins or of all installed ones", width
    )
    lines += _entry(
        "--json", f"machine-readable output of {', '.join(JSON_COMMANDS[:-1])} and {JSON_COMMANDS[-1]}", width
    )
    lines += _entry("--version", "the version", width)
    if not plugin_specs and not everything:
        lines += ["", "Plugins add flags of their own: golem-host --enable NAME --help, or --help-all."]
    return "\n".join(lines)


def command_help(command: str) -> str:
    """One command: what it does, its argument, and where its flags are explained."""
    lines = [f"usage: golem-host {' '.join(filter(None, (command, OPERANDS.get(command))))} [FLAGS]", ""]
    lines += textwrap.wrap(f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}.", _width())
    if command in JSON_COMMANDS:
        lines += ["", *_entry("--json", "print it for programs", _width())]
    if command == "bench":
        lines += ["", "For example: golem-host bench --enable chat --chat-model model.gguf"]
    lines += ["", "Every flag: golem-host --help; with those of plugins: golem-host --enable NAME --help."]
    return "\n".join(lines)


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 120)


def _meaning(spec: Setting) -> str:
    notes = []
    if spec.repeatable:
        notes.append("repeatable")
    if not spec.is_flag or spec.default is True:
        notes.append(f"default: {spec.default_text()}")
    return f"{spec.help} ({'; '.join(notes)})" if notes else spec.help


def _entry(name: str, meaning: str, width: int) -> list[str]:
    first = "  " + name
    body = textwrap.wrap(meaning, width - _INDENT) or [""]
    if len(first) >= _INDENT:
        return [first, *(" " * _INDENT + line for line in body)]
    return [first.ljust(_INDENT) + body[0], *(" " * _INDENT + line for line in body[1:])]
