"""The option `--golem-plugin NAME` of pytest: the conformance suite of an installed plugin."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("golem-host").addoption(
        "--golem-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="run golem-host's conformance suite for this installed plugin (repeatable); nothing else is collected "
        "unless it is named",
    )


def pytest_configure(config: pytest.Config) -> None:
    names = config.getoption("--golem-plugin")
    if not names:
        return
    from golem_host.errors import OperatorError
    from golem_host.testing.conformance import chosen

    try:
        for name in names:
            chosen.suite_of(name)
    except OperatorError as error:
        raise pytest.UsageError(str(error)) from error
    chosen.names = tuple(dict.fromkeys(names))
    suite = str(Path(chosen.__file__).with_name("installed.py"))
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    config.args = [*named, suite]
