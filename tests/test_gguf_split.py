"""Models split into files named -00001-of-0000N.gguf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.testing.raw_gguf import RawTensor, gguf_bytes
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights import GgufError, open_gguf

COUNT = 3


def write_part(folder: Path, index: int, tensor: str | None = None, **changes: Any) -> Path:
    """Part `index` (from 0) with one tensor; `changes` to its split keys, None leaves one out."""
    values = {"no": np.uint16(index), "count": np.uint16(COUNT), "tensors.count": np.int32(COUNT)} | changes
    metadata: dict[str, Any] = {"general.architecture": "llama", "llama.block_count": 7} if index == 0 else {}
    metadata |= {f"split.{key}": value for key, value in values.items() if value is not None}
    path = folder / f"model-{index + 1:05}-of-{COUNT:05}.gguf"
    data = np.array([index + 0.5], "<f4").tobytes()
    path.write_bytes(gguf_bytes(metadata, [RawTensor(tensor or f"t{index}", [1], 0, data)]))
    return path


def write_set(folder: Path) -> list[Path]:
    return [write_part(folder, index) for index in range(COUNT)]


@pytest.mark.parametrize("index", range(COUNT))
def test_opened_from_any_part(tmp_path: Path, index: int) -> None:
    paths = write_set(tmp_path)
    gguf = open_gguf(paths[index])
    assert gguf.paths == tuple(paths)
    assert gguf.path == paths[0]
    assert gguf.u32("llama.block_count") == 7
    assert {name: tensor.float32().tolist() for name, tensor in gguf.tensors.items()} == {
        "t0": [0.5],
        "t1": [1.5],
        "t2": [2.5],
    }
    assert gguf.tensors["t2"].path == paths[2]
    assert gguf.size_bytes == sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("missing", range(COUNT))
def test_missing_part_is_named(tmp_path: Path, missing: int) -> None:
    paths = write_set(tmp_path)
    paths[missing].unlink()
    with pytest.raises(GgufError, match=f"part {missing + 1} of 3 is missing: model-0000{missing + 1}-of-00003.gguf"):
        open_gguf(paths[missing - 1])


@pytest.mark.parametrize(
    ("index", "changes", "reason"),
    [
        (1, {"count": np.uint16(4)}, r"model-00002-of-00003.*'split.count' is 4"),
        (1, {"count": None}, r"model-00002-of-00003.*'split.count' is 0"),
        (2, {"no": np.uint16(1)}, r"model-00003-of-00003.*name says part 3, its 'split.no' says part 2"),
        (0, {"tensors.count": np.int32(5)}, "holds 3 tensors, its 'split.tensors.count' is 5"),
        (2, {"tensor": "t0"}, "tensor 't0' occurs in another part"),
        (1, {"count": "3"}, "'split.count': expected a count"),
        (1, {"no": np.int32(-1)}, "'split.no': expected a count"),
    ],
)
def test_parts_that_do_not_fit_together(tmp_path: Path, index: int, changes: dict[str, Any], reason: str) -> None:
    paths = write_set(tmp_path)
    write_part(tmp_path, index, **changes)
    with pytest.raises(GgufError, match=reason):
        open_gguf(paths[0])


def test_name_and_count_must_agree(tmp_path: Path) -> None:
    renamed = write_part(tmp_path, 0).rename(tmp_path / "renamed.gguf")
    with pytest.raises(GgufError, match=r"one of 3 parts, so its name must end in -00001-of-00003\.gguf"):
        open_gguf(renamed)
    other = write_part(tmp_path, 0).rename(tmp_path / "model-00001-of-00002.gguf")
    with pytest.raises(GgufError, match=r"name says it is one of 2 parts, its 'split\.count' is 3"):
        open_gguf(other)


def test_a_set_of_one_and_a_broken_part(tmp_path: Path) -> None:
    single = tmp_path / "model-00001-of-00001.gguf"
    single.write_bytes(gguf_bytes({"split.count": np.uint16(1), "n": 5}))
    assert open_gguf(single).u32("n") == 5
    paths = write_set(tmp_path)
    paths[1].write_bytes(paths[1].read_bytes()[:-40])
    with pytest.raises(GgufError, match=r"model-00002-of-00003.*'t1'"):
        open_gguf(paths[0])


def test_sets_of_the_gguf_package(tmp_path: Path) -> None:
    whole = open_gguf(tiny_gguf(tmp_path / "whole.gguf"))
    parts = open_gguf(tiny_gguf(tmp_path / "parts.gguf", shards=2))
    assert len(parts.paths) == 2
    assert set(parts.tensors) == set(whole.tensors)
    for name, tensor in whole.tensors.items():
        np.testing.assert_array_equal(parts.tensors[name].data, tensor.data)
