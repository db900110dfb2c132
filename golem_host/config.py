"""Settings: what they are, how text becomes a value, and which source wins.

Precedence: command-line flag > environment > TOML file > default. `Settings.source` tells where each value came from.
`CORE` are the host's own settings; a plugin's come from its `golem_settings` hook.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from golem_host.core_settings import CORE, cache_folder, physical_cores
from golem_host.errors import UsageError
from golem_host.parsers import (
    Address,
    NamedPath,
    address,
    boolean,
    choice,
    device,
    duration,
    integer,
    keep_alive,
    listing,
    named_path,
    nearest,
    number,
    path,
    show_size,
    signed_duration,
    size,
    text,
)
from golem_host.setting import Setting

__all__ = [
    "CORE",
    "Address",
    "NamedPath",
    "Setting",
    "Settings",
    "address",
    "boolean",
    "cache_folder",
    "choice",
    "device",
    "duration",
    "integer",
    "keep_alive",
    "listing",
    "misspelt",
    "named_path",
    "nearest",
    "number",
    "path",
    "physical_cores",
    "resolve",
    "show_size",
    "signed_duration",
    "size",
    "text",
]


class Settings(Mapping[str, Any]):
    """The resolved settings by name (`settings["max-body"]`), each with its source. Never changes."""

    def __init__(self, specs: Sequence[Setting], values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self.specs = tuple(specs)
        self._values = dict(values)
        self._sources = dict(sources)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def source(self, name: str) -> str:
        """Where the value came from: `flag --context`, `env GOLEM_CONTEXT`, the settings file's path, or `default`."""
        return self._sources[name]

    def replaced(self, source: str, **values: Any) -> Settings:
        """A copy with some values replaced, underscores in the keywords standing for hyphens."""
        changed = {name.replace("_", "-"): value for name, value in values.items()}
        unknown = changed.keys() - self._values.keys()
        if unknown:
            raise KeyError(f"no such setting: {', '.join(sorted(unknown))}")
        return Settings(self.specs, {**self._values, **changed}, {**self._sources, **dict.fromkeys(changed, source)})


def read_toml(toml_path: Path) -> dict[str, Any]:
    """The table of a settings file with hyphens in its keys. UsageError when it cannot be read or is not TOML."""
    try:
        table = tomllib.loads(toml_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"settings file {toml_path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"settings file {toml_path}: {error}") from None
    settings: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name in settings:
            raise UsageError(f"settings file {toml_path}: {name} is given twice, with hyphens and with underscores")
        settings[name] = value
    return settings


def resolve(
    specs: Sequence[Setting],
    flags: Mapping[str, Sequence[str]],
    environ: Mapping[str, str],
    toml_path: Path | None,
    *,
    explain_unknown: Callable[[str], str | None] | None = lambda name: None,
) -> Settings:
    """Merge all sources of `specs`. `flags` has the texts of each flag given, `true`/`false` for one without argument.

    Raises UsageError for a bad value (naming its source) and for a TOML key that no setting has; `explain_unknown` may
    know more about such a key (a plugin that is not enabled), and None skips such keys.
    """
    file = read_toml(toml_path) if toml_path is not None else {}
    names = {spec.name for spec in specs}
    for key in file:
        if key not in names and explain_unknown is not None:
            why = explain_unknown(key) or f"unknown setting{nearest(key, names)}"
            raise UsageError(f"settings file {toml_path}: {key}: {why}")

    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for spec in specs:
        source, texts = _texts(spec, flags, environ, file, toml_path)
        sources[spec.name] = source
        if texts is None:
            values[spec.name] = spec.default_value()
            continue
        from_file = toml_path if source == str(toml_path) else None
        try:
            parsed = [spec.parse(item) for item in texts]
        except ValueError as error:
            where = source if from_file is None else f"settings file {from_file}: {spec.name}"
            raise UsageError(f"{where}: {error}") from None
        if from_file is not None:
            parsed = [_relative_to(from_file.parent, value) for value in parsed]
        values[spec.name] = _flatten(parsed) if spec.repeatable else parsed[0]
    return Settings(specs, values, sources)


def misspelt(specs: Sequence[Setting], environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables named nearly like one of `specs`, each with words that say which; empty ones do not count."""
    known = {variable.removeprefix("GOLEM_") for spec in specs for variable in spec.environment_names}
    found = []
    for variable, value in sorted(environ.items()):
        name = variable.removeprefix("GOLEM_")
        if value and name != variable and name not in known:
            hint = nearest(name, known).replace("'", "'GOLEM_", 1)
            found += [(variable, hint)] if hint else []
    return found


def _texts(
    spec: Setting,
    flags: Mapping[str, Sequence[str]],
    environ: Mapping[str, str],
    file: Mapping[str, Any],
    toml_path: Path | None,
) -> tuple[str, list[str] | None]:
    """The strongest source that has the setting, and its raw texts; ("default", None) when none has."""
    if flags.get(spec.name):
        return f"flag {spec.flag}", list(flags[spec.name])
    for variable in spec.environment_names:
        # A variable that is set to nothing counts as not set, as shells and service files write it.
        if environ.get(variable):
            value = environ[variable]
            return f"env {variable}", [item.strip() for item in value.split(",")] if spec.repeatable else [value]
    if spec.name in file:
        return str(toml_path), _toml_texts(spec, file[spec.name], toml_path)
    return "default", None


def _toml_texts(spec: Setting, value: Any, toml_path: Path | None) -> list[str] | None:
    """A TOML value as texts for the parser; an empty array is an empty tuple's worth of texts."""
    items = value if isinstance(value, list) else [value]
    if isinstance(value, list) and not spec.repeatable:
        raise UsageError(f"settings file {toml_path}: {spec.name}: expected one value, got an array")
    if spec.is_flag and not isinstance(value, bool):
        raise UsageError(f"settings file {toml_path}: {spec.name}: expected true or false, got {value!r}")
    texts = []
    for item in items:
        if isinstance(item, bool):
            texts.append("true" if item else "false")
        elif isinstance(item, (str, int, float)):
            texts.append(str(item))
        else:
            kind = "a table" if isinstance(item, dict) else f"a {type(item).__name__}"
            raise UsageError(f"settings file {toml_path}: {spec.name}: expected a plain value, got {kind}")
    return texts


def _relative_to(folder: Path, value: Any) -> Any:
    """Paths of a settings file are relative to that file."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, NamedPath):
        return replace(value, path=folder / value.path, written=value.path)
    return value


def _flatten(parsed: list[Any]) -> tuple[Any, ...]:
    flat: list[Any] = []
    for value in parsed:
        if isinstance(value, tuple):
            flat.extend(value)
        else:
            flat.append(value)
    return tuple(flat)
