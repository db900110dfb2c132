"""docs/public-api.txt is what the sources say, and the changelog names what has changed of it."""

from __future__ import annotations

from pathlib import Path

import public_api
from test_imports import PUBLIC, inside

SOURCE = """
from typing import TYPE_CHECKING
from pack.parts import Base

if TYPE_CHECKING:
    from pack.parts import helper

__all__ = ["LIMIT", "Thing", "helper"]

LIMIT: int = 3

class Thing(Base):
    size: int = 1
    def __init__(self, name: str) -> None:
        self.name = name
        self._secret = 1
    def method(self, count: int = 2) -> str: ...
    def _hidden(self) -> None: ...
"""
PARTS = """
class Base:
    @property
    def kind(self) -> str: ...

async def helper(*words: str, times: int) -> None: ...

def private() -> None: ...
"""
CHANGELOG = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- LINE\n\n## 0.1.0\n\n- `Thing.method` and `Base` are there.\n"


def listed(folder: Path, source: str = SOURCE, parts: str = PARTS) -> dict[str, str]:
    (folder / "pack").mkdir(exist_ok=True)
    (folder / "pack" / "__init__.py").write_text(source)
    (folder / "pack" / "parts.py").write_text(parts)
    return public_api.entries(folder, ["pack"], [])


def test_the_list_is_what_the_sources_say():
    found = public_api.entries()
    text = public_api.LIST.read_text(encoding="utf-8")
    kept, _ = public_api.read(text)
    changes = public_api.differences(kept, found)
    told = "\n".join(f"  {mark}{name} {found.get(name, '')}" for name, mark in sorted(changes.items()))
    assert not changes, (
        f"the public API is not what docs/public-api.txt lists:\n{told}\n"
        "Where this is meant: run `python tests/public_api.py`, which writes the list anew, and name each of these in "
        "backticks in a line of CHANGELOG.md under the unreleased heading. Where it is not: plugins rely on it; take "
        "the change back, or keep the old name with golem_host.deprecation."
    )
    assert text == public_api.written(text, found), "write it anew: python tests/public_api.py"


def test_the_changelog_names_what_has_changed():
    _, marks = public_api.read(public_api.LIST.read_text(encoding="utf-8"))
    missing = public_api.unnamed(marks, public_api.CHANGELOG.read_text(encoding="utf-8"))
    assert not missing, (
        f"public, changed since the last release, and not in CHANGELOG.md: {', '.join(missing)}. Write a line "
        "under the unreleased heading that names each in backticks (`function`, `Class` or `Class.member`)."
    )


def test_plugins_may_import_what_is_public():
    assert not [module for module in public_api.MODULES if not inside(module, PUBLIC)]


def test_an_entry_is_a_name_with_its_signature(tmp_path):
    assert listed(tmp_path) == {
        "pack.LIMIT": ": int = ...",
        "pack.Thing": "class(Base)",
        "pack.Thing.__init__": "(self, name: str) -> None",
        "pack.Thing.method": "(self, count: int=2) -> str",
        "pack.Thing.name": "attribute",
        "pack.Thing.size": ": int = ...",
        "pack.helper": "is pack.parts.helper",
        "pack.parts.Base": "class",
        "pack.parts.Base.kind": "@property (self) -> str",
        "pack.parts.helper": "async (*words: str, times: int) -> None",
    }


def test_what_changes_is_marked_until_a_release_and_named_by_the_changelog(tmp_path):
    first = public_api.written("", listed(tmp_path), released=True)
    assert public_api.read(first)[1] == {}
    changed = listed(tmp_path, SOURCE.replace("count: int = 2", "count: int"), PARTS.replace("def kind", "def sort"))
    marks = {"pack.Thing.method": "* ", "pack.parts.Base.kind": "- ", "pack.parts.Base.sort": "+ "}
    assert public_api.differences(public_api.read(first)[0], changed) == marks
    second = public_api.written(first, changed)
    assert public_api.read(second)[1] == marks
    assert public_api.written(second, changed) == second, "marks stay"
    assert public_api.unnamed(marks, CHANGELOG) == sorted(marks)
    for line, rest in {
        "`Thing.method(count)` wants its count": ["pack.parts.Base.kind", "pack.parts.Base.sort"],
        "`Thing` and pack.parts.Base": ["pack.parts.Base.kind", "pack.parts.Base.sort"],
        "`Base.sort` was `Base.kind`": ["pack.Thing.method"],
        "`pack.parts.Base`, `method`": ["pack.Thing.method"],
        "`pack.Thing` and `Base`": [],
    }.items():
        assert public_api.unnamed(marks, CHANGELOG.replace("LINE", line)) == rest
    assert public_api.read(public_api.written(second, changed, released=True)) == (changed, {})
    assert public_api.unnamed(marks, "## 0.2.0\n\n- `Thing`, `Base`\n") == sorted(marks), "nothing is unreleased"


def test_what_is_new_and_gone_again_is_no_longer_told(tmp_path):
    first = public_api.written("", listed(tmp_path), released=True)
    more = public_api.written(
        first, listed(tmp_path, parts=PARTS.replace("class Base:", "class Base:\n    extra: int"))
    )
    assert public_api.read(more)[1] == {"pack.parts.Base.extra": "+ "}
    again = public_api.written(more, listed(tmp_path))
    assert again == first
