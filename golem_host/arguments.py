"""The command line as words: which command, which flags with which texts, which other arguments.

Values are not parsed here; `golem_host.config.resolve` does that for all sources alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from golem_host.errors import UsageError
from golem_host.parsers import nearest
from golem_host.setting import Setting

COMMANDS = {
    "serve": "load the models of the enabled plugins and serve them (the default)",
    "plugins": "list the installed plugins and whether they load",
    "models": "list the models that the settings name and those in the model folder",
    "check": "tell what a model file or directory is, and whether it can be served here",
    "bench": "time the models that the settings name: prompts and answers, alone and together",
    "devices": "list what this machine can compute on: the processor, and Vulkan devices",
    "config": "print every setting, its value and where it came from",
    "pull": "fetch a model into the model folder: demo, or hf.co/OWNER/REPO[:QUANT]",
    "new-plugin": "write the project of a new plugin, with its tests, into a folder golem-host-NAME here",
}
OPERANDS = {"check": "FILE_OR_DIR", "pull": "NAME", "new-plugin": "NAME"}
"""Commands that take exactly one argument, and what it is called."""

JSON_COMMANDS = ("plugins", "models", "check", "bench", "devices", "config")
SWITCHES = ("json", "help", "help-all", "version")
"""Flags that are no settings."""


@dataclass
class Arguments:
    """`flags` has each given setting's texts in order (`true`/`false` for one without argument)."""

    command: str = "serve"
    flags: dict[str, list[str]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    operands: list[str] = field(default_factory=list)


def parse(
    words: Sequence[str],
    specs: Sequence[Setting],
    *,
    explain_unknown: Callable[[str], str | None] | None = None,
) -> Arguments:
    """Split `words` (without the program's name) by the given settings.

    Without `explain_unknown`, flags that no setting has are skipped: the first look, before the plugins are known that
    may own them. With it they are UsageErrors; it may say more about a name than which known one is near.
    """
    arguments = Arguments()
    rest = list(words)
    if rest and not rest[0].startswith("-"):
        arguments.command = rest.pop(0)
        if arguments.command not in COMMANDS:
            hint = nearest(arguments.command, COMMANDS) or f"; commands: {', '.join(COMMANDS)}; see golem-host --help"
            raise UsageError(f"unknown command {arguments.command!r}{hint}")
    by_name = {spec.name: spec for spec in specs}
    while rest:
        word = rest.pop(0)
        if word == "-h":
            word = "--help"
        if not word.startswith("--") or word == "--":
            arguments.operands.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        positive = name if name in by_name else name.removeprefix("no-")
        spec = by_name.get(positive)
        if name in SWITCHES:
            _refuse_value(name, equals)
            arguments.switches.add(name)
        elif spec is None or (positive != name and not spec.is_flag):
            if explain_unknown is not None:
                raise UsageError(_unknown(name, explain_unknown(name), by_name))
        elif spec.is_flag:
            _refuse_value(name, equals)
            _add(arguments, spec, "true" if positive == name else "false")
        else:
            _take_value(arguments, spec, value if equals else None, rest)
    if explain_unknown is not None:
        _check_operands(arguments)
    return arguments


def _unknown(name: str, explanation: str | None, by_name: dict[str, Setting]) -> str:
    if explanation:
        return f"--{name}: {explanation}"
    return f"unknown flag --{name}{nearest('--' + name, ['--' + known for known in (*by_name, *SWITCHES)])}"


def _take_value(arguments: Arguments, spec: Setting, value: str | None, rest: list[str]) -> None:
    if value is None:
        if not rest or rest[0].startswith("--"):
            raise UsageError(f"{spec.flag} needs a value: {spec.usage}")
        value = rest.pop(0)
    if not value:
        raise UsageError(f"{spec.flag} has an empty value")
    _add(arguments, spec, value)


def _add(arguments: Arguments, spec: Setting, value: str) -> None:
    texts = arguments.flags.setdefault(spec.name, [])
    if texts and not spec.repeatable:
        raise UsageError(f"{spec.flag} is given twice")
    texts.append(value)


def _refuse_value(name: str, equals: str) -> None:
    if equals:
        raise UsageError(f"--{name} takes no value")


def _check_operands(arguments: Arguments) -> None:
    wanted = OPERANDS.get(arguments.command)
    if arguments.switches & {"help", "help-all", "version"}:
        return
    if wanted is None and arguments.operands:
        first = arguments.operands[0]
        late = f"; a command comes before the flags: golem-host {first}" if first in COMMANDS else ""
        raise UsageError(f"unexpected argument {first!r}{late}")
    if wanted is not None and len(arguments.operands) != 1:
        got = "none is given" if not arguments.operands else f"{len(arguments.operands)} are given"
        raise UsageError(f"golem-host {arguments.command} takes one {wanted}, {got}")
    if "json" in arguments.switches and arguments.command not in JSON_COMMANDS:
        raise UsageError(f"golem-host {arguments.command} has no --json; these have: {', '.join(JSON_COMMANDS)}")
