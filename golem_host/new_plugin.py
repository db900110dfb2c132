"""`golem-host new-plugin NAME`: the project of a plugin, small and whole, to be changed into one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from golem_host import plugins
from golem_host.errors import UsageError
from golem_host.host import host_version
from golem_host.http.known_routes import ROUTES_OF_KIND
from golem_host.http.own_operations import OPERATIONS

LONGEST_NAME = 40

OWN_TEST = "tests/test_{module}.py"
FILES = {
    "pyproject.toml.j2": "pyproject.toml",
    "README.md.j2": "README.md",
    "gitignore.j2": ".gitignore",
    "init.py.j2": "{package}/__init__.py",
    "plugin.py.j2": "{package}/plugin.py",
    "model.py.j2": "{package}/model.py",
    "weights.json.j2": "{package}/weights.json",
    "routes.py.j2": "{package}/routes.py",
    "conformance.py.j2": "{package}/conformance.py",
    "test_conformance.py.j2": "tests/test_conformance.py",
    "test_own.py.j2": OWN_TEST,
    "workflow.yml.j2": ".github/workflows/test.yml",
}
"""Templates in `golem_host/plugin_template` and where each is written."""


def new_plugin(name: str, folder: Path) -> int:
    """Write the project `golem-host-NAME` into `folder` and print what to do with it.

    Raises UsageError for a name that is none, or belongs to something that is there already, and OSError.
    """
    _check_name(name)
    words = _words(name)
    _check_free(name, words["path"])
    files = _rendered(words)
    project = folder / words["distribution"]
    try:
        project.mkdir()
    except FileExistsError:
        raise UsageError(f"{project} is there already; remove it, or choose another name") from None
    for path, content in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(content, encoding="utf-8")
    print(_what_next(words))
    return 0


def _check_name(name: str) -> None:
    if len(name) <= LONGEST_NAME and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) and _suggestion(name) == name:
        return
    suggestion = _suggestion(name)
    hint = f"; {suggestion!r} would do" if suggestion else ""
    raise UsageError(
        f"{name!r} is no name for a plugin: expected up to {LONGEST_NAME} lower-case letters, digits and single "
        f"hyphens, a letter first, without 'golem-host-', which is put before it{hint}"
    )


def _suggestion(name: str) -> str:
    """The nearest name that is allowed; empty when there is none."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).removeprefix("golem-host-")
    return plain.lstrip("-0123456789")[:LONGEST_NAME].rstrip("-")


def _check_free(name: str, path: str) -> None:
    """UsageError when a plugin, a route or a kind of model has the name."""
    if OWN_TEST.format(module=name) in FILES.values():
        raise UsageError(f"{name!r} is what every plugin calls its conformance suite; choose another name")
    for info in plugins.installed():
        if info.name == name:
            raise UsageError(
                f"plugin {name!r} is installed already ({info.distribution} {info.version}); choose another name"
            )
    owners = {operation.partition(" ")[2]: "golem-host itself" for operation in OPERATIONS}
    for one in plugins.examine_all():
        owners.update({route.path: f"plugin {one.info.name}" for route in one.routes})
    if path in owners:
        raise UsageError(f"{path} would be its route, and belongs to {owners[path]}; choose another name")
    if name in ROUTES_OF_KIND:
        raise UsageError(f"{name!r} would be its kind of model, which others serve; choose another name")


def _words(name: str) -> Mapping[str, str]:
    """What the templates name, by their variables."""
    module = name.replace("-", "_")
    return {
        "name": name,
        "module": module,
        "package": f"golem_host_{module}",
        "distribution": f"golem-host-{name}",
        "class_name": "".join(part.capitalize() for part in name.split("-")),
        "variable": f"GOLEM_{module.upper()}",
        "metric": f"golem_{module}_greeted_total",
        "path": f"/v1/{name}",
        "host_version": host_version().partition("+")[0],
    }


def _rendered(words: Mapping[str, str]) -> dict[str, str]:
    """The project's files by their paths."""
    from jinja2 import Environment, StrictUndefined

    # Python, TOML and GitHub's workflows have other uses for braces.
    environment = Environment(
        variable_start_string="<<", variable_end_string=">>", undefined=StrictUndefined, keep_trailing_newline=True
    )
    templates = resources.files("golem_host") / "plugin_template"
    return {
        path.format(**words): environment.from_string((templates / template).read_text(encoding="utf-8")).render(words)
        for template, path in FILES.items()
    }


def _what_next(words: Mapping[str, str]) -> str:
    distribution = words["distribution"]
    return "\n".join(
        [
            f"{distribution}: a plugin that serves POST {words['path']}; README.md says what each file holds. Next:",
            "",
            f"  pip install -e './{distribution}[test]'",
            f"  (cd {distribution} && pytest)",
            f"  golem-host --enable {words['name']}",
            f"""  curl http://127.0.0.1:8080{words["path"]} -d '{{"names": ["Ada", "Grace"]}}'""",
        ]
    )
