"""Safetensors files: what the format's own library writes is read, what is broken or hostile is refused by name."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.testing.safetensors import safetensors_bytes
from golem_host.weights import GgmlType, SafetensorsError, open_safetensors

ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def raw(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(folder: Path, data: bytes) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8])
def test_values(tmp_path: Path, dtype: type) -> None:
    values = np.arange(-3, 9).reshape(3, 4).astype(dtype)
    scalar = np.array(2, dtype)
    path = write(tmp_path, safetensors_bytes({"a.weight": values, "b": scalar}, {"format": "pt"}))
    with open_safetensors(path) as file:
        assert list(file.tensors) == ["a.weight", "b"]
        assert file.metadata == {"format": "pt"}
        assert file.tensors["a.weight"].shape == (3, 4)
        assert file.tensors["b"].shape == (1,)
        assert (file.tensors["a.weight"].data.view(dtype).reshape(3, 4) == values).all()
        if dtype in (np.float32, np.float16):
            assert (file.tensors["a.weight"].float32() == values).all()
        assert file.size_bytes == path.stat().st_size
    assert not file.tensors


def test_bfloat16_and_types_that_are_not_read(tmp_path: Path) -> None:
    header = {
        "half": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "mask": {"dtype": "BOOL", "shape": [3], "data_offsets": [4, 7]},
        "tiny": {"dtype": "F4", "shape": [2], "data_offsets": [7, 8]},
    }
    with open_safetensors(write(tmp_path, raw(header, bytes.fromhex("803f0040") + bytes(4)))) as file:
        assert file.tensors["half"].type is GgmlType.BF16
        assert file.tensors["half"].float32().tolist() == [1.0, 2.0]
        assert file.unread == {"mask": "BOOL", "tiny": "F4"}
        assert file.raw["mask"].shape == (3,) and file.raw["mask"].data.tobytes() == bytes(3)
    assert not file.raw


def test_values_at_odd_places(tmp_path: Path) -> None:
    header = {
        "a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]},
    }
    with open_safetensors(write(tmp_path, raw(header, b"\1" + struct.pack("<f", 1.5)))) as file:
        assert file.tensors["b"].float32().tolist() == [1.5]
        assert file.tensors["b"].data.ctypes.data % 4 == 0


def test_the_library_writes_the_same(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="needs the safetensors package")
    tensors = {"b": np.ones((2, 3), np.float32), "a": np.arange(5, dtype=np.float16), "c": np.zeros((0, 4), np.float32)}
    path = write(tmp_path, library.save(tensors, {"k": "v"}))
    with open_safetensors(path) as file:
        assert {name: tensor.shape for name, tensor in file.tensors.items()} == {
            name: value.shape for name, value in tensors.items()
        }
        assert file.tensors["b"].float32().tolist() == tensors["b"].tolist()
    assert library.load(safetensors_bytes(tensors, {"k": "v"}))["a"].tolist() == tensors["a"].tolist()


HUGE = 2**59


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"{}", "shorter than the size of a header"),
        (b"PK\x03\x04" + bytes(20), "no header begins at byte 8"),
        (struct.pack("<Q", HUGE) + b"{}", f"header of {HUGE} bytes is larger"),
        (struct.pack("<Q", 99) + b"{}", "header of 99 bytes does not fit into the 10 bytes"),
        (raw(b"{\xff}"), "header is not UTF-8 at byte 1"),
        (raw(b"{]"), "header is not JSON"),
        (raw(b'{"a":' * 100_000), "nested too deep|not JSON"),
        (raw(b'{"a": 1' + b"0" * 5000 + b"}"), "not JSON"),
        (raw(b'{"a": {}, "a": {}}'), "'a' occurs twice"),
        (raw({"__metadata__": {"a": 1}}), "'__metadata__' is not an object of texts"),
        (raw({"__metadata__": []}), "'__metadata__' is not an object of texts"),
        (raw({"a": 3}), "tensor 'a' is described by something else"),
        (raw({"a": {"dtype": "F32", "shape": [2]}}), "tensor 'a' is described by something else"),
        (raw({"a": {**ONE, "dtype": "Q4"}}, bytes(8)), "tensor 'a' has the unknown type 'Q4'"),
        (raw({"a": {**ONE, "dtype": ["F32"]}}, bytes(8)), "unknown type"),
        (raw({"a": {**ONE, "shape": [-2]}}, bytes(8)), r"tensor 'a' has the shape \[-2\]"),
        (raw({"a": {**ONE, "shape": [2.0]}}, bytes(8)), r"tensor 'a' has the shape \[2.0\]"),
        (raw({"a": {**ONE, "shape": [True, 2]}}, bytes(8)), "tensor 'a' has the shape"),
        (raw({"a": {**ONE, "shape": [HUGE, HUGE]}}, bytes(8)), "tensor 'a' has the shape"),
        (raw({"a": {**ONE, "shape": [1] * 9}}, bytes(8)), "tensor 'a' has the shape"),
        (raw({"a": {**ONE, "shape": [3]}}, bytes(8)), r"of type F32 and shape \[3\] has 8 bytes"),
        (raw({"a": {**ONE, "data_offsets": [8, 0]}}, bytes(8)), r"lies at \[8, 0\], which is no place"),
        (raw({"a": {**ONE, "data_offsets": [0, 8, 9]}}, bytes(8)), "which is no place"),
        (raw({"a": {**ONE, "data_offsets": [4, 12]}}, bytes(12)), "tensor 'a' begins at byte"),
        (raw({"a": ONE, "b": ONE}, bytes(8)), "tensor 'b' begins at byte"),
        (raw({"a": ONE}, bytes(7)), "truncated, download it again"),
        (raw({"a": ONE}, bytes(9)), "the rest belongs to nothing"),
        (raw({}, b"x"), "the rest belongs to nothing"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, data: bytes, reason: str) -> None:
    path = write(tmp_path, data)
    with pytest.raises(SafetensorsError, match=reason) as caught:
        open_safetensors(path)
    assert caught.value.path == path


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SafetensorsError, match="cannot be opened|not a regular file"):
            open_safetensors(path)


def test_claims_allocate_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, raw({"a": {"dtype": "F32", "shape": [HUGE], "data_offsets": [0, HUGE * 4 % (1 << 59)]}}))
    tracemalloc.start()
    with pytest.raises(SafetensorsError):
        open_safetensors(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 20), st.sampled_from(["F32", "F16", "BF16", "U8", "x"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "dtype", "shape", "data_offsets", "__metadata__"]), inner, max_size=3),
    ),
)
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "U8", "F4", "no"]),
        "shape": st.lists(st.integers(0, 3), max_size=3),
        "data_offsets": st.lists(st.integers(0, 12), min_size=2, max_size=2),
    }
)


@given(
    header=st.one_of(JSON, st.dictionaries(st.sampled_from("abc"), st.one_of(ENTRY, JSON), max_size=3)),
    data=st.binary(max_size=24),
    cut=st.integers(0, 300),
)
def test_anything_opens_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, header: Mapping[str, Any], data: bytes, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(raw(header, data)[: cut + 8])
    try:
        file = open_safetensors(path)
    except SafetensorsError:
        return
    taken = 0
    for tensor in file.tensors.values():
        assert tensor.nbytes == len(tensor.data)
        tensor.float32() if tensor.type in (GgmlType.F32, GgmlType.F16, GgmlType.BF16) else None
        taken += tensor.nbytes
    assert taken <= len(data)
