"""What importing the routes brings along: the list of routes is light, the handlers need no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from golem_host.api import Route
from golem_host_chat.routes import ROUTES

CODE = """
import importlib, sys
{imports}
loaded = [name for name in ("torch", "litestar", "jinja2", "numpy") if name in sys.modules]
print(",".join(loaded))
"""


def loaded_by(imports: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(imports=imports)],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(filter(None, done.stdout.strip().split(",")))


def test_the_list_is_light() -> None:
    assert loaded_by("import golem_host_chat.routes") == set()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_handlers_need_no_torch(route: Route) -> None:
    assert isinstance(route.handler, str)
    module, _, name = route.handler.partition(":")
    loaded = loaded_by(f"getattr(importlib.import_module({module!r}), {name!r})")
    assert "litestar" in loaded
    assert "torch" not in loaded
