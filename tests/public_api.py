"""The public API, one line a name with its signature, read from the sources; docs/public-api.txt keeps it.

`python tests/public_api.py` writes the list anew and marks what has changed since the last release; with `--released`
(part of making a release) it takes the marks away.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "docs" / "public-api.txt"
CHANGELOG = ROOT / "CHANGELOG.md"

MODULES = (
    "golem_host.api",
    "golem_host.config",
    "golem_host.deprecation",
    "golem_host.hookspecs",
    "golem_host.http.schemas",
    "golem_host.ops",
    "golem_host.ops.recording",
    "golem_host.testing.backend",
    "golem_host.testing.command",
    "golem_host.testing.conformance",
    "golem_host.testing.distributions",
    "golem_host.testing.fakes",
    "golem_host.testing.inprocess",
    "golem_host.testing.safetensors",
    "golem_host.text",
    "golem_host.text.tokenizer_json",
    "golem_host.weights",
    "golem_host.weights.config_json",
)
"""What plugins of others may rely on: `__all__` of these modules, else all of their names without an underscore, with
the members of classes. Plugins of this repository may use more, since they change with the host."""

NAMES = (
    "golem_host.http.requestlog.RequestNote",
    "golem_host.registry.Registry",
)
"""And what those names hand out."""

HEADING = """\
# The public API of golem-host, one line a name. Written by `python tests/public_api.py`.
# Marked since the last release: `+` is new, `*` has changed, `-` is gone. CHANGELOG.md names each of them.
"""
NEW, CHANGED, GONE, SAME = "+ ", "* ", "- ", "  "


class Sources:
    """The modules below `root` as syntax trees."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees: dict[str, ast.Module | None] = {}

    def tree(self, module: str) -> ast.Module | None:
        if module not in self._trees:
            path = self._root.joinpath(*module.split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            self._trees[module] = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else None
        return self._trees[module]

    def statements(self, module: str) -> Iterator[ast.stmt]:
        """Those of a module, also what only type checkers see."""
        for node in getattr(self.tree(module), "body", ()):
            yield from node.body if isinstance(node, ast.If) else [node]

    def definition(self, module: str, name: str) -> tuple[str, list[ast.stmt]] | None:
        """Where a name is defined, and by which statements (several of an overloaded function). None outside of these
        modules."""
        found: list[ast.stmt] = []
        for node in self.statements(module):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.definition(node.module or "", alias.name)
            elif name in _bound(node):
                found.append(node)
        return (module, found) if found else None


def entries(root: Path = ROOT, modules: Sequence[str] = MODULES, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Every public name, fully qualified, and what is said of it: kind and signature, or where it is defined."""
    sources = Sources(root)
    found: dict[str, str] = {}
    listed = [(module, name) for module in modules for name in _public_names(sources, module)]
    for module, name in [*listed, *(tuple(name.rsplit(".", 1)) for name in names)]:
        place = sources.definition(module, name)
        if place is None:
            raise ValueError(f"{module}.{name} is listed and not defined")
        home, statements = place
        if home != module:
            found[f"{module}.{name}"] = f"is {home}.{name}"
        _describe(sources, home, statements, found)
    return dict(sorted(found.items()))


def _public_names(sources: Sources, module: str) -> list[str]:
    names: list[str] = []
    for node in sources.statements(module):
        if isinstance(node, ast.Assign) and _bound(node) == ["__all__"]:
            return [ast.literal_eval(each) for each in node.value.elts]  # type: ignore[attr-defined]
        names += [name for name in _bound(node) if not name.startswith("_") and name != "log"]
    return list(dict.fromkeys(names))


def _bound(node: ast.stmt) -> list[str]:
    """The names a statement gives a meaning to, imports left out."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for each in targets if isinstance(each, ast.Name)]


def _describe(sources: Sources, module: str, statements: list[ast.stmt], found: dict[str, str]) -> None:
    for node in statements:
        if isinstance(node, ast.ClassDef):
            _describe_class(sources, module, node, found)
        else:
            _add(found, module, node)


def _describe_class(sources: Sources, module: str, node: ast.ClassDef, found: dict[str, str]) -> None:
    name = f"{module}.{node.name}"
    if name in found:
        return
    bases = [ast.unparse(each) for each in node.bases]
    found[name] = _marks(node) + (f"class({', '.join(bases)})" if bases else "class")
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            found[f"{name}.__init__"] = _signature(member)
            for attribute in _attributes(member):
                found.setdefault(f"{name}.{attribute}", "attribute")
        elif not any(each.startswith(("_", "test_")) for each in _bound(member)):
            _add(found, name, member)
    for base in bases:
        # What is inherited is public as well; bases of others are theirs.
        place = sources.definition(module, base)
        if place is not None:
            _describe(sources, *place, found)


def _attributes(function: ast.FunctionDef) -> Iterator[str]:
    """Public attributes that `__init__` sets."""
    for node in ast.walk(function):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for each in (part for target in targets for part in ast.walk(target)):
            match each:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if not name.startswith("_"):
                    yield name


def _add(found: dict[str, str], owner: str, node: ast.stmt) -> None:
    for name in _bound(node):
        key = f"{owner}.{name}"
        if isinstance(node, ast.AnnAssign):
            text = f": {ast.unparse(node.annotation)}" + (" = ..." if node.value is not None else "")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = _signature(node)
            if key in found and "overload" in found[key]:
                text = f"{found[key]}; {text}"
        else:
            text = "value"
        found[key] = text


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{_marks(node)}{kind}({ast.unparse(node.args)}){returns}"


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return "".join(f"@{ast.unparse(each)} " for each in node.decorator_list)


def read(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The names of a list with what is said of them, and the marks of those that have one."""
    kept: dict[str, str] = {}
    marks: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        mark, (name, _, said) = line[:2], line[2:].partition(" ")
        if mark != SAME:
            marks[name] = mark
        if mark != GONE:
            kept[name] = said
    return kept, marks


def differences(kept: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """The names whose entries differ, with their marks."""
    marks = {name: GONE for name in kept.keys() - found.keys()}
    for name, said in found.items():
        if kept.get(name) != said:
            marks[name] = CHANGED if name in kept else NEW
    return marks


def written(text: str, found: Mapping[str, str], *, released: bool = False) -> str:
    """The list with the names that were found, after the list that `text` is."""
    kept, marks = read(text)
    for name, mark in differences(kept, found).items():
        before = marks.pop(name, SAME)
        if (before, mark) == (NEW, GONE):
            continue  # it was never released
        marks[name] = NEW if before == NEW else CHANGED if before == GONE else mark
    if released:
        marks = {}
    lines = {name: f"{GONE}{name}" for name, mark in marks.items() if mark == GONE}
    lines.update({name: f"{marks.get(name, SAME)}{name} {said}" for name, said in found.items()})
    return HEADING + "".join(f"{line}\n" for _, line in sorted(lines.items()))


def unreleased(changelog: str) -> str:
    """The changelog's section of what is not released; empty when there is none."""
    section = re.search(r"^## [^\n]*unreleased[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return section[1] if section else ""


def unnamed(marks: Mapping[str, str], changelog: str) -> list[str]:
    """The marked names that the changelog does not name in backticks: itself, or of a member its class."""
    words = re.findall(r"[\w.]+", " ".join(re.findall(r"`([^`]+)`", unreleased(changelog))))
    told = {".".join(parts[start:]) for parts in (word.split(".") for word in words) for start in range(len(parts))}
    return sorted(name for name in marks if not told.intersection(_short(name)))


def _short(name: str) -> set[str]:
    """What it may be called: `golem_host.http.fields.Fields.integer` is told by `Fields.integer` and by `Fields`."""
    parts = name.split(".")
    start = next((place for place, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return {".".join(parts[start:end]) for end in range(start + 1, len(parts) + 1)}


def main() -> None:
    text = LIST.read_text(encoding="utf-8") if LIST.exists() else ""
    LIST.write_text(written(text, entries(), released="--released" in sys.argv), encoding="utf-8")
    marks = read(LIST.read_text(encoding="utf-8"))[1]
    for name in unnamed(marks, CHANGELOG.read_text(encoding="utf-8")):
        print(f"not named in CHANGELOG.md under the unreleased heading: `{name}`")


if __name__ == "__main__":
    main()
