"""Checks of what a plugin says of itself before it serves: imports, flags, descriptions of routes."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from golem_host.api import Setting
from golem_host.plugins import installed
from golem_host.testing.conformance.subject import Served, Subject, fail

HEAVY = ("torch", "litestar", "granian")
"""What nothing may import before a model is loaded or the server starts."""

_IMPORT = """
import importlib, json, sys
module, flags, heavy = json.loads(sys.argv[1])
def found(when):
    guilty = [name for name in heavy if name in sys.modules]
    if guilty:
        sys.exit(f"{when}: {', '.join(guilty)}")
importlib.import_module("golem_host.api")
importlib.import_module(module)
found(f"importing {module}")
from golem_host.config import CORE, resolve
from golem_host.plugins import load
plugins = load([sys.argv[2]])
settings = resolve([*CORE, *plugins.settings()], flags, {}, None)
plugins.each("golem_routes")
plugins.each("golem_demo")
plugins.each("golem_models", settings=settings)
found("golem_settings, golem_routes, golem_demo or golem_models")
"""


class LightChecks(Subject):
    """Nothing is served here but descriptions."""

    def test_lazy_import(self, served_flags: tuple[Path, Any]) -> None:
        folder, flags = served_flags
        texts = {name: [value] if isinstance(value, str) else list(value) for name, value in flags.items()}
        said = json.dumps([self._module(), {"model-folder": [str(folder)], **texts}, HEAVY])
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT, said, self.plugin], capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            fail(
                f"plugin {self.plugin} is not light: {done.stderr.strip()[-600:]}\n"
                "Import heavy modules inside functions, name route handlers as text (`package.module:name`)."
            )

    def test_flags_are_documented(self) -> None:
        settings = self.plugins().settings()
        text = self._documentation()
        silent = [spec.name for spec in settings if not spec.help.strip()]
        if silent:
            fail(f"settings without a help text: {', '.join(silent)}")
        missing = [spec.flag for spec in settings if not _described(spec, text)]
        if missing:
            fail(
                f"not in any README or docs page of plugin {self.plugin}: {', '.join(missing)}. Describe them in the "
                "README.md beside the package, or name the pages in `documents`."
            )

    def test_openapi_describes_the_routes(self, serve: Any) -> None:
        async def scenario(served: Served) -> None:
            response = await served.get("/schema/openapi.json")
            if response.status_code != 200:
                fail(f"GET /schema/openapi.json is answered {response.status_code}: {response.text[:300]}")
            paths = response.json()["paths"]
            routes = [route for route in self.routes() if route.method != "WEBSOCKET"]
            for route in routes:
                if not route.summary.strip():
                    fail(f"{route.method} {route.path} has no summary: `Route(..., summary=...)` says what it answers")
            known = {f"{route.method} {route.path}" for route in routes}
            described = [name for _, said in self.plugins().each("golem_openapi") for name in said]
            for name in described:
                if name not in known:
                    fail(f"golem_openapi describes {name}, which is none of the routes: {', '.join(sorted(known))}")
            for sample in self.samples:
                route = self.route_of(sample)
                operation = paths[_documented(route.path)][route.method.lower()]
                content = operation.get("requestBody", {}).get("content", {})
                fields = {name for each in content.values() for name in each["schema"].get("properties", {})}
                given = {*(sample.json or {}), *(sample.form or {}), *(sample.files or {}), *(sample.stream or {})}
                if fields and given - fields:
                    fail(
                        f"golem_openapi does not describe these fields of {sample}: {', '.join(sorted(given - fields))}"
                    )

        serve(scenario)

    def _module(self) -> str:
        found = next((info for info in installed() if info.name == self.plugin), None)
        if found is None:
            pytest.fail(f"no plugin {self.plugin!r} is installed (pip install -e .)", pytrace=False)
        return found.value.partition(":")[0].strip()

    def _documentation(self) -> str:
        """READMEs and docs around the plugin's module up to its project file; where there are none, as of a plugin that
        is installed without its sources, what the distribution says. That of an editable one is as old as its
        installation."""
        __import__(self._module())
        folder = Path(inspect.getfile(sys.modules[self._module()])).parent
        found: list[Path] = []
        in_project = False
        for _ in range(4):
            found += [*folder.glob("README.md"), *folder.glob("docs/**/*.md")]
            in_project = (folder / "pyproject.toml").is_file()
            if in_project:
                break
            folder = folder.parent
        texts = [page.read_text(encoding="utf-8") for page in [*self.documents, *found]]
        return "\n".join(texts if in_project and found else [*texts, self._description()])

    def _description(self) -> str:
        from importlib.metadata import metadata

        info = next(info for info in installed() if info.name == self.plugin)
        said = metadata(info.distribution)
        return str(said.json.get("description", "")) if info.distribution != "unknown" else ""


def _described(setting: Setting, text: str) -> bool:
    """Whether a text has the flag: `--echo`, and of one that is on or off `--no-echo` or `--[no-]echo`."""
    return re.search(rf"--(no-|\[no-\])?{re.escape(setting.name)}(?![\w-])", text) is not None


def _documented(path: str) -> str:
    """A route's path as OpenAPI writes it."""
    parts = [
        f"{{{part[1:].partition(':')[0].rstrip('}')}}}" if part.startswith("{") else part for part in path.split("/")
    ]
    return "/".join(parts)
