"""llama.cpp's rule for names of files that clients choose (`fs_validate_filename`)."""

from __future__ import annotations

import pytest

from golem_host_chat.file_names import is_file_name


@pytest.mark.parametrize("name", ["a", "slot.bin", ".hidden", "a b.c", "名前.bin", "é", "x" * 255, "é" * 127, "a.b.c"])
def test_names(name: str) -> None:
    assert is_file_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a..b", "../a", "a/b", "/a", "a\\b", "C:a", "a*", "a?", 'a"', "a<", "a>", "a|"),
        *(" a", "a ", "a.", "a\x00", "a\n", "a\x1f", "a\x7f", "a\x80", "a\x9f"),
        *("a\uff0e", "a\u2215b", "a\u2216b", "a\ufffd", "\ufeffa", "\ud800", "x" * 256, "é" * 128),
    ],
)
def test_no_names(name: str) -> None:
    assert not is_file_name(name)
