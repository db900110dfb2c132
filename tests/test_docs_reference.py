"""docs/plugins/ has an entry for every hook and every public name, and its code runs; no page is left out."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from golem_host import api, hookspecs, ops
from golem_host.testing.conformance import PluginConformance

DOCS = Path(__file__).parents[1] / "docs"
HOOKS = {
    name: function
    for name, function in inspect.getmembers(hookspecs, inspect.isfunction)
    if name.startswith("golem_") and function.__module__ == hookspecs.__name__
}
SECTIONS = {
    found[1]: found[2]
    for found in re.finditer(
        r"^### (golem_\w+)\n(.*?)(?=^##|\Z)",
        (DOCS / "plugins/hooks.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}
CODE = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in sorted((DOCS / "plugins").glob("*.md"))
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
]


def identifiers(page: str) -> list[str]:
    return re.findall(r"^::: ([\w.]+)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)


def named(identifier: str) -> Any:
    try:
        return importlib.import_module(identifier)
    except ModuleNotFoundError:
        module, _, name = identifier.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_every_hook_has_an_entry_with_its_arguments() -> None:
    assert HOOKS and SECTIONS.keys() == HOOKS.keys()
    table = (DOCS / "plugins/hooks.md").read_text(encoding="utf-8")
    for name, function in HOOKS.items():
        signature = f"`{name}({', '.join(inspect.signature(function).parameters)})`"
        assert signature in SECTIONS[name]
        assert f"| [`{name}`](#{name}) |" in table


def test_every_public_name_has_an_entry() -> None:
    entries = identifiers("plugins/api.md")
    assert len(entries) == len(set(entries))
    assert sorted(entry.rpartition(".")[2] for entry in entries) == sorted(api.__all__)
    for entry in entries:
        assert named(entry) is getattr(api, entry.rpartition(".")[2])


def test_every_check_of_the_conformance_suite_has_an_entry() -> None:
    checks = {name for name in dir(PluginConformance) if name.startswith("test_")}
    page = (DOCS / "plugins/testing.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(test_\w+)`", page)) == checks


def test_every_operation_is_named() -> None:
    page = (DOCS / "plugins/computing.md").read_text(encoding="utf-8")
    functions = {name for name in ops.__all__ if inspect.isfunction(getattr(ops, name))}
    assert functions and not [name for name in functions if f"`{name}" not in page]


def test_public_modules_are_there() -> None:
    assert [named(each) for each in identifiers("plugins/modules.md")]


@pytest.mark.parametrize("code", CODE)
def test_the_code_runs(code: str) -> None:
    exec(compile(code, "<docs>", "exec"), {"__name__": "docs"})


def test_every_page_is_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    pages |= {f"plugins/first-party/{path.parent.name}.md" for path in DOCS.parent.glob("plugins/*/README.md")}
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == pages


@pytest.mark.parametrize(
    "page",
    sorted([*DOCS.rglob("*.md"), *DOCS.parent.glob("plugins/*/README.md")]),
    ids=lambda page: page.relative_to(DOCS.parent).as_posix(),
)
def test_links_lead_to_files_of_the_tree(page: Path) -> None:
    """As they are read where the tree is shown; their anchors are checked where the site is built."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", prose)]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert not missing
