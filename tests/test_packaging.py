"""The project file says what is in the tree: every plugin is packaged and enabled by its name, nothing else is."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

from golem_host import plugins

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def plugin_packages() -> dict[str, Path]:
    """`golem_host_chat` -> its directory, for every plugin in the tree."""
    return {path.name: path for path in ROOT.glob("plugins/*/golem_host_*") if path.is_dir()}


def test_every_plugin_in_the_tree_is_packaged():
    packages = PROJECT["tool"]["scikit-build"]["wheel"]["packages"]
    expected = {name: str(path.relative_to(ROOT)) for name, path in plugin_packages().items()}
    assert packages == {"golem_host": "golem_host", **expected}


def test_every_plugin_has_an_entry_point_of_its_name():
    points = PROJECT["project"]["entry-points"]["golem_host"]
    assert points == {path.parent.name: f"{name}.plugin" for name, path in plugin_packages().items()}


def test_the_installed_distribution_is_this_one():
    ours = {info.name: info.value for info in plugins.installed() if info.distribution == "golem-host"}
    assert ours == PROJECT["project"]["entry-points"]["golem_host"]
    assert importlib.metadata.version("golem-host") == PROJECT["project"]["version"]


def test_every_import_of_the_product_is_declared():
    """A module that only happens to be installed here would be missing at a user's."""
    declared = {
        re.match(r"[\w-]+", requirement)[0].lower().replace("-", "_")  # type: ignore[index]
        for requirement in PROJECT["project"]["dependencies"]
    }
    names = importlib.metadata.packages_distributions()
    guilty = set()
    for package in (ROOT / "golem_host", *plugin_packages().values()):
        for path in package.rglob("*.py"):
            for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                for distribution in names.get(name, []):
                    known = distribution.lower().replace("-", "_")
                    if known not in declared and known != "golem_host" and "testing" not in path.with_suffix("").parts:
                        guilty.add(f"{path.relative_to(ROOT)} imports {name} ({distribution})")
    assert not guilty


def test_the_changelog_has_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(PROJECT['project']['version'])}\b", changelog, re.MULTILINE)
