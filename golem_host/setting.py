"""One setting: its name everywhere, its parser, its default, and how its value is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from golem_host.parsers import duration, keep_alive, show_duration, show_size, size


@dataclass(frozen=True)
class Setting:
    """One setting, of the core or of a plugin.

    `name` gives the flag `--name`, the environment variable `GOLEM_NAME` and the TOML key `name` (or with underscores).
    `parse` turns one piece of text into the value and raises `ValueError` with what is wrong and what is expected.
    `default` is a value, or a function without arguments whose docstring says what it gives; it is never parsed.
    `repeatable`: the value is a tuple; the flag may be repeated, the environment separates by commas, TOML has an
    array; a parser that returns a tuple itself (`listing`) adds all of its items.
    `is_flag`: takes no argument; `--name` is true and `--no-name` false.
    `secret`: shown as `***`. `env`: further environment names. `plugin`: filled by the loader.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    env: tuple[str, ...] = ()
    repeatable: bool = False
    is_flag: bool = False
    metavar: str | None = None
    secret: bool = False
    plugin: str | None = None

    @property
    def flag(self) -> str:
        return "--" + self.name

    @property
    def usage(self) -> str:
        """The flag as help and docs show it: `--addr HOST:PORT`, `--demo`, `--[no-]any-model` (on by default)."""
        if self.is_flag:
            return f"--[no-]{self.name}" if self.default is True else self.flag
        return f"{self.flag} {self.metavar or 'VALUE'}"

    @property
    def environment_names(self) -> tuple[str, ...]:
        """All environment names, strongest first."""
        return ("GOLEM_" + self.name.upper().replace("-", "_"), *self.env)

    def default_value(self) -> Any:
        return self.default() if callable(self.default) else self.default

    def default_text(self) -> str:
        """The default as help and docs show it; the same on every machine."""
        if callable(self.default):
            return (self.default.__doc__ or "").strip().rstrip(".")
        return self.show(self.default)

    def show(self, value: Any) -> str:
        """A value as tables and docs print it; a secret is hidden."""
        if value is None and self.parse is keep_alive:
            return "for ever"
        if value is None or value == ():
            return "none"
        if self.secret:
            return "***"
        if self.repeatable:
            return ",".join(str(item) for item in value)
        if isinstance(value, bool):
            return "on" if value else "off"
        if self.parse is size:
            return show_size(value)
        if self.parse in (duration, keep_alive):
            return show_duration(value)
        return str(value)
