"""The binding says what the header says, and finds or refuses libraries with a reason."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path

import pytest

import golem_host.kernels
from golem_host.kernels import library
from golem_host.kernels.library import Act, GateKind, Kernels, LibraryError, Op, RopeAxes, RopeStyle

HEADER = Path(__file__).parents[2] / "golem_host/kernels/src/golem_kernels.h"


@pytest.fixture(scope="module")
def header() -> str:
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text().replace("/* cdef ", "@"), flags=re.S)


def words(text: str) -> str:
    return " ".join(text.split())


def test_declarations_are_the_headers(header):
    declarations = header.split("@begin */")[1].split("@end */")[0]
    assert words(re.sub(r"enum \w+ \{.*?\};", "", declarations, flags=re.S)) == words(library.CDEF)


@pytest.mark.parametrize(
    ("enum", "name", "prefix"),
    [
        (Op, "golem_op", "GOLEM_OP_"),
        (Act, "golem_act", "GOLEM_ACT_"),
        (RopeStyle, "golem_rope", "GOLEM_ROPE_"),
        (RopeAxes, "golem_axes", "GOLEM_AXES_"),
        (GateKind, "golem_gate", "GOLEM_GATE_"),
    ],
)
def test_constants_are_the_headers(header, enum: type[IntEnum], name, prefix):
    found = re.search(rf"enum {name} \{{(.*?)\}};", header, flags=re.S)
    assert found
    members = dict(re.findall(rf"{prefix}(\w+) = (\d+)", found[1]))
    assert members == {member.name: str(member.value) for member in enum}


def test_interface_version_is_the_headers(header):
    assert f"#define GOLEM_ABI {library.ABI}\n" in header


def test_every_error_has_a_text(header, kernels):
    codes = {int(code) for code in re.findall(r"GOLEM_E_\w+ = (\d+)", header)}
    texts = {kernels.error_text(code) for code in codes | {0}}
    assert len(texts) == len(codes) + 1
    assert kernels.error_text(max(codes) + 1) == kernels.error_text(-1) == "unknown error code"


@pytest.fixture
def elsewhere(monkeypatch):
    """Points GOLEM_KERNELS_LIBRARY at a path and forgets what was loaded."""

    def point(path: Path) -> None:
        monkeypatch.setenv("GOLEM_KERNELS_LIBRARY", str(path))

    library.load.cache_clear()
    yield point
    library.load.cache_clear()


def test_a_library_named_by_the_environment(elsewhere, tmp_path):
    if not library.library_path().is_file():
        pytest.skip(library.why_missing())
    elsewhere(Path(shutil.copy(library.library_path(), tmp_path / "other.so")))
    loaded = library.load()
    assert loaded is not None
    assert library.load() is loaded


def test_no_library_is_no_error(elsewhere, monkeypatch, tmp_path):
    monkeypatch.delenv("GOLEM_KERNELS_LIBRARY", raising=False)
    monkeypatch.setattr(golem_host.kernels, "__path__", [str(tmp_path / "sources"), str(tmp_path / "built")])
    assert library.load() is None
    assert str(tmp_path) in library.why_missing()


def test_an_editable_install_has_the_library_in_another_folder(elsewhere, monkeypatch, tmp_path):
    monkeypatch.delenv("GOLEM_KERNELS_LIBRARY", raising=False)
    built = tmp_path / library.library_path().name
    built.touch()
    monkeypatch.setattr(golem_host.kernels, "__path__", [str(tmp_path / "sources"), str(tmp_path)])
    assert library.library_path() == built


def test_a_named_library_that_is_not_there_is_an_error(elsewhere, tmp_path):
    elsewhere(tmp_path / "gone.so")
    with pytest.raises(LibraryError, match=r"GOLEM_KERNELS_LIBRARY: no such file: .*gone\.so"):
        library.load()


def test_a_file_that_is_no_library(elsewhere, tmp_path):
    path = tmp_path / "text.so"
    path.write_text("no library")
    elsewhere(path)
    with pytest.raises(LibraryError, match="cannot load"):
        library.load()


def test_another_interface_version(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source, path = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text("int golem_abi(void) { return 999; }")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    with pytest.raises(LibraryError, match="interface version 999, golem-host needs"):
        Kernels(path)


@pytest.mark.parametrize("isa", ["avx9", "AVX2"])
def test_an_unknown_instruction_set_is_refused(monkeypatch, tmp_path, isa):
    if not library.library_path().is_file():
        pytest.skip(library.why_missing())
    monkeypatch.setenv("GOLEM_ISA", isa)
    with pytest.raises(LibraryError, match=f"GOLEM_ISA={isa}"):
        Kernels(Path(shutil.copy(library.library_path(), tmp_path / "fresh.so")))


def test_an_empty_choice_is_no_choice(monkeypatch, tmp_path):
    if not library.library_path().is_file():
        pytest.skip(library.why_missing())
    names = []
    for number in range(2):
        monkeypatch.setenv("GOLEM_ISA", "")
        if number:
            monkeypatch.delenv("GOLEM_ISA")
        names.append(Kernels(Path(shutil.copy(library.library_path(), tmp_path / f"{number}.so"))).isa)
    assert names[0] == names[1]
