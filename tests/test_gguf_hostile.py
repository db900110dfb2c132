"""GGUF files made to exhaust or mislead: many keys, long texts, split sets that go round in circles."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from golem_host.testing.raw_gguf import RawTensor, gguf_bytes
from golem_host.text import tokenizer_from_gguf
from golem_host.weights import GgufError, open_gguf

LONG = "x" * (8 << 20)


@contextmanager
def at_most(mebibytes: int) -> Iterator[None]:
    """What is done inside never holds more memory, beside the mapped file."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < mebibytes << 20


def write(folder: Path, *args: object) -> Path:
    path = folder / "hostile.gguf"
    path.write_bytes(gguf_bytes(*args))  # type: ignore[arg-type]
    return path


def test_a_hundred_thousand_keys(tmp_path: Path) -> None:
    path = write(tmp_path, {f"key.{number}": number for number in range(100_000)})
    with at_most(40), open_gguf(path) as gguf:
        assert len(gguf.metadata) == 100_000
        assert gguf.u32("key.99999") == 99_999


def test_many_tensors(tmp_path: Path) -> None:
    path = write(tmp_path, {}, [RawTensor(f"t{number}", [1], 0, bytes(4)) for number in range(10_000)])
    with at_most(20), open_gguf(path) as gguf:
        assert len(gguf.tensors) == 10_000


def test_long_values_are_left_in_the_file_until_asked(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": LONG, "texts": [LONG], "empty": [b""] * 500_000, "numbers": np.zeros(1 << 20)})
    with at_most(10), open_gguf(path) as gguf:
        assert len(gguf.strings("texts")) == 1
        assert len(gguf.strings("empty")) == 500_000
        with pytest.raises(GgufError, match="'numbers': expected an integer .*, found an array of 1048576 float64"):
            gguf.u32("numbers")


@pytest.mark.parametrize("key", ["model", "pre"])
def test_a_refusal_quotes_little_of_a_long_text(tmp_path: Path, key: str) -> None:
    keys = {"model": "gpt2", "pre": "gpt-2", key: LONG}
    path = write(tmp_path, {f"tokenizer.ggml.{name}": value for name, value in keys.items()})
    with open_gguf(path) as gguf, pytest.raises(GgufError, match=rf"'tokenizer\.ggml\.{key}' is 'xxx") as caught:
        tokenizer_from_gguf(gguf)
    assert len(str(caught.value)) < 2000


def part(folder: Path, number: int, of: int, **keys: int) -> Path:
    path = folder / f"set-{number:05}-of-{of:05}.gguf"
    values = {"no": number - 1, "count": of} | keys
    path.write_bytes(gguf_bytes({f"split.{name}": np.uint16(value) for name, value in values.items()}))
    return path


def test_parts_that_are_one_file(tmp_path: Path) -> None:
    first = part(tmp_path, 1, 65535)
    for number in range(2, 6):
        (tmp_path / f"set-{number:05}-of-65535.gguf").symlink_to(first)
    with pytest.raises(GgufError, match=r"set-00002-of-65535\.gguf: .* part 2, its 'split\.no' says part 1"):
        open_gguf(first)


def test_parts_that_name_each_other(tmp_path: Path) -> None:
    first, second = part(tmp_path, 1, 2), part(tmp_path, 2, 2, no=0)
    for path in (first, second):
        with pytest.raises(GgufError, match=r"set-00002-of-00002\.gguf: .* part 2, its 'split\.no' says part 1"):
            open_gguf(path)


def test_links_in_a_circle(tmp_path: Path) -> None:
    first = part(tmp_path, 1, 3)
    second, third = tmp_path / "set-00002-of-00003.gguf", tmp_path / "set-00003-of-00003.gguf"
    second.symlink_to(third)
    third.symlink_to(second)
    with pytest.raises(GgufError, match="part 2 of 3 is missing"):
        open_gguf(first)
    with pytest.raises(GgufError, match="cannot be opened"):
        open_gguf(second)


def test_a_part_that_says_it_is_the_whole(tmp_path: Path) -> None:
    first, _ = part(tmp_path, 1, 2), part(tmp_path, 2, 2, count=1)
    with pytest.raises(GgufError, match=r"its 'split\.count' is 1, that of the other parts is 2"):
        open_gguf(first)
