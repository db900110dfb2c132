"""GGUF files that are broken or hostile: refused with a reason, without using up memory."""

from __future__ import annotations

import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golem_host.testing.raw_gguf import RawTensor, RawValue, gguf_bytes
from golem_host.weights import GgufError, open_gguf

ONE = RawTensor("one", [4], 0, bytes(16))
HUGE = 2**62


def refused(folder: Path, data: bytes, reason: str) -> None:
    path = folder / "broken.gguf"
    path.write_bytes(data)
    with pytest.raises(GgufError, match=reason) as caught:
        open_gguf(path)
    assert caught.value.path == path


def header(version: int = 3, tensors: int = 0, pairs: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<Iqq", version, tensors, pairs)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"GG", "not a GGUF file"),
        (b"PK\x03\x04....", r"not a GGUF file \(it begins with the bytes 50 4b 03 04\)"),
        (b"lmgg....", r"not a GGUF file \(it begins with 'lmgg'\)"),
        ("GGÜF....".encode("latin-1"), r"not a GGUF file \(it begins with the bytes 47 47 dc 46\)"),
        (b"GGUF\x03", "ends inside the version"),
        (header(version=1), "version 1 is not supported"),
        (header(version=4), "version 4 is not supported"),
        (header(version=0), "version 0 is not supported"),
        (b"GGUF" + struct.pack(">Iqq", 3, 0, 0), "big-endian"),
        (header(tensors=-1), "claims -1 tensors"),
        (header(pairs=-1), "claims -1 metadata keys"),
        (header(tensors=HUGE), f"claims {HUGE} tensors, more than the file"),
        (header(pairs=HUGE), f"claims {HUGE} metadata keys, more than the file"),
        (header(pairs=1) + struct.pack("<Q", HUGE) + bytes(99), "ends inside metadata key 0"),
        (gguf_bytes([("k", 1), ("k", 2)]), "metadata key 'k' occurs twice"),
        (gguf_bytes({b"\xff": 1}), "metadata key 0 is not UTF-8"),  # type: ignore[dict-item]
        (gguf_bytes({"k" * 65536: 1}), "metadata key 0 has 65536 bytes"),
        (gguf_bytes({"k": RawValue(13, bytes(8))}), "'k' has the unknown value type 13"),
        (gguf_bytes({"k": RawValue(9, struct.pack("<iQ", 9, 1))}), "'k' is an array of arrays"),
        (gguf_bytes({"k": RawValue(9, struct.pack("<iQ", 5, HUGE))}), f"claims {HUGE} elements of 'k'"),
        (gguf_bytes({"k": RawValue(9, struct.pack("<iQ", 8, HUGE))}), f"claims {HUGE} elements of 'k'"),
        (gguf_bytes({"k": RawValue(9, struct.pack("<iQQQ", 8, 2, 0, HUGE))}), "ends inside the array 'k'"),
        (gguf_bytes({"k": RawValue(8, struct.pack("<Q", HUGE))}), "ends inside the value of 'k'"),
        (gguf_bytes({"k": RawValue(10, b"")}, alignment=1), "ends inside the value of 'k'"),
        (gguf_bytes({}, [ONE, ONE]), "tensor 'one' occurs twice"),
        (gguf_bytes({}, [RawTensor(b"\xff", [1], 0, bytes(4))]), "the name of tensor 0 is not UTF-8"),
        (gguf_bytes({}, [RawTensor("t", [1] * 5, 0, bytes(4))]), "tensor 't' has 5 dimensions"),
        (gguf_bytes({}, [RawTensor("t", [4, 0], 0, b"")]), r"tensor 't' has the dimensions \[4, 0\]"),
        (gguf_bytes({}, [RawTensor("t", [4, -1], 0, b"")]), r"tensor 't' has the dimensions \[4, -1\]"),
        (gguf_bytes({}, [RawTensor("t", [HUGE, 2], 0, b"")]), "tensor 't' has .* too many elements"),
        (gguf_bytes({}, [RawTensor("t", [2**31] * 4, 0, b"")]), "tensor 't' has .* too many elements"),
        (gguf_bytes({}, [RawTensor("t", [2**40], 0, bytes(64))]), "tensor 't' needs 4398046511104 bytes"),
        (gguf_bytes({}, [RawTensor("t", [48, 2], 2, bytes(54))]), "tensor 't' has rows of 48 values.* Q4_0"),
        (gguf_bytes({}, [RawTensor("t", [4], 0, bytes(16), offset=16)]), "tensor 't' lies at 16, not a multiple .* 32"),
        (gguf_bytes({}, [RawTensor("t", [4], 0, bytes(16), offset=64)]), "tensor 't' lies at byte .* truncated"),
        (gguf_bytes({}, [RawTensor("t", [4], 0, bytes(16), offset=2**64 - 32)]), "tensor 't' lies at byte"),
        (gguf_bytes({}, [RawTensor("odd", [4], 77, b"", offset=4096)]), "tensor 'odd' lies at byte"),
        (gguf_bytes({}, [ONE, RawTensor("two", [4], 0, bytes(16), offset=0)]), "'one' runs into that of tensor 'two'"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    refused(tmp_path, data, reason)


@pytest.mark.parametrize("alignment", [0, 3, 48, 2**25, -32, 32.0, "32", np.arange(3)], ids=repr)
def test_alignment_must_be_a_sane_power_of_two(tmp_path: Path, alignment: object) -> None:
    value = np.int32(alignment) if isinstance(alignment, int) else alignment
    refused(tmp_path, gguf_bytes({"general.alignment": value}), r"'general\.alignment' must be a power of two")


def test_data_laid_out_for_another_alignment(tmp_path: Path) -> None:
    tensors = [RawTensor("a", [1], 0, bytes(4)), RawTensor("b", [1], 0, bytes(4))]
    data = gguf_bytes({"general.alignment": 64}, tensors, alignment=32)
    refused(tmp_path, data, "tensor 'b' lies at 32, not a multiple of the alignment 64")


def test_what_is_not_a_file(tmp_path: Path) -> None:
    reasons = {
        tmp_path: "is a directory, not a GGUF file; golem-host check tells",
        tmp_path / "absent.gguf": "cannot be opened",
    }
    for path, reason in reasons.items():
        with pytest.raises(GgufError, match=reason) as caught:
            open_gguf(path)
        assert str(caught.value).startswith(str(path))


def test_truncated_download_names_the_tensor(tmp_path: Path) -> None:
    data = gguf_bytes({}, [RawTensor("first", [2048], 0, bytes(8192)), RawTensor("last", [2048], 0, bytes(8192))])
    refused(tmp_path, data[:-4096], "tensor 'last' needs 8192 bytes .* truncated")
    refused(tmp_path, data[: -4096 - 8192], "tensor 'last' lies at byte .* truncated")


WHOLE = gguf_bytes(
    {
        "general.architecture": "llama",
        "general.alignment": 32,
        "words": ["one", "two", "three"],
        "numbers": np.arange(5, dtype=np.int16),
        "truth": np.array([True, False]),
        "f": 0.5,
        "b": True,
        "text": "some text",
    },
    [ONE, RawTensor("q4", [64, 2], 12 - 10, bytes(72)), RawTensor("half", [3], 1, bytes(6))],
    pad_end=False,
)


def test_cut_anywhere(tmp_path: Path) -> None:
    for length in range(len(WHOLE)):
        refused(tmp_path, WHOLE[:length], ".")


EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
EDITS = st.tuples(
    st.integers(0, len(WHOLE) - 1),
    st.one_of(
        st.binary(min_size=1, max_size=8),
        st.sampled_from(EDGES).map(lambda value: struct.pack("<Q", value)),
        st.sampled_from(EDGES).map(lambda value: struct.pack("<I", value & 0xFFFFFFFF)),
    ),
)


@settings(max_examples=300, deadline=None)
@given(edits=st.lists(EDITS, min_size=1, max_size=3), cut=st.integers(0, 40), tail=st.binary(max_size=40))
def test_changed_anywhere(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]], cut: int, tail: bytes
) -> None:
    data = bytearray(WHOLE)
    for at, new in edits:
        data[at : at + len(new)] = new
    path = tmp_path_factory.getbasetemp() / "changed.gguf"
    path.write_bytes(bytes(data[: len(data) - cut]) + tail)
    tracemalloc.start()
    try:
        with open_gguf(path) as gguf:
            for key in gguf.metadata:
                _touch(lambda key=key: list(gguf.metadata[key]) if key == "words" else gguf.metadata[key])
            for tensor in gguf.tensors.values():
                _touch(tensor.float32)
    except GgufError as error:
        assert str(error).startswith(str(path))
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1 << 20


def _touch(read: object) -> None:
    try:
        read()  # type: ignore[operator]
    except GgufError as error:
        assert re.search("UTF-8|unknown|cannot be read|which this host does not know", str(error))
