"""Reading GGUF files that are in order."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golem_host.errors import ModelFileError
from golem_host.kernels import library
from golem_host.testing.raw_gguf import RawTensor, RawValue, gguf_bytes
from golem_host.testing.tiny import tiny_gguf
from golem_host.weights import GgmlType, Gguf, GgufError, open_gguf
from golem_host.weights.strings import StringArray


def opened(folder: Path, *args: Any, **kwargs: Any) -> Gguf:
    path = folder / "model.gguf"
    path.write_bytes(gguf_bytes(*args, **kwargs))
    return open_gguf(path)


def f32(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_read_alike(tmp_path: Path, version: int) -> None:
    gguf = opened(
        tmp_path,
        {"general.architecture": "llama"},
        [RawTensor("a", [3, 2], 0, f32(1, 2, 3, 4, 5, 6))],
        version=version,
    )
    assert (gguf.version, gguf.architecture) == (version, "llama")
    assert gguf.path == tmp_path / "model.gguf"
    assert gguf.paths == (gguf.path,)
    assert gguf.size_bytes == gguf.path.stat().st_size
    assert gguf.tensors["a"].shape == (2, 3)
    np.testing.assert_array_equal(gguf.tensors["a"].float32(), [[1, 2, 3], [4, 5, 6]])


SCALARS = [
    np.uint8(200),
    np.int8(-3),
    np.uint16(60000),
    np.int16(-300),
    np.uint32(4_000_000_000),
    np.int32(-70000),
    np.float32(0.1),
    np.uint64(2**63),
    np.int64(-(2**40)),
    np.float64(0.1),
]


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: value.dtype.name)
def test_scalars_and_arrays_of_every_width(tmp_path: Path, value: Any) -> None:
    array = np.array([value, 0, value])
    gguf = opened(tmp_path, {"x": "unaligning", "scalar": value, "array": array})
    assert gguf.metadata["scalar"] == value.item()
    assert type(gguf.metadata["scalar"]) is type(value.item())
    np.testing.assert_array_equal(gguf.array("array"), array)
    assert gguf.array("array").dtype == array.dtype


def test_bools_and_texts(tmp_path: Path) -> None:
    gguf = opened(tmp_path, {"yes": True, "no": False, "odd": RawValue(7, b"\x02"), "text": "héllo\0", "empty": ""})
    assert [gguf.boolean(key) for key in ("yes", "no", "odd")] == [True, False, True]
    assert gguf.string("text") == "héllo\0"
    assert gguf.string("empty") == ""
    assert dict(gguf.metadata) == {"yes": True, "no": False, "odd": True, "text": "héllo\0", "empty": ""}
    bools = opened(tmp_path, {"many": np.array([True, False, True])}).array("many")
    assert bools.dtype == bool
    assert bools.tolist() == [True, False, True]


@pytest.mark.parametrize("count", [0, 3, 5000])  # 5000 takes the native walk where there is a library
def test_string_arrays_stay_in_the_file_until_asked(tmp_path: Path, count: int) -> None:
    words = [f"wörd {number}" for number in range(count)]
    strings = opened(tmp_path, {"words": words, "after": 7}).strings("words")
    assert isinstance(strings, StringArray)
    assert len(strings) == count
    assert strings.strs() == words
    assert list(strings) == [word.encode() for word in words]
    assert [strings[index] for index in range(count)] == list(strings)
    if count:
        assert strings[-1] == words[-1].encode()
    for index in (count, -count - 1):
        with pytest.raises(IndexError, match=str(count)):
            strings[index]


@pytest.mark.parametrize("broken", [False, True])
def test_long_string_arrays_without_a_usable_kernel_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    def load() -> None:
        if broken:
            raise library.LibraryError("built for another version")

    monkeypatch.setattr(library, "load", load)
    words = [str(number) for number in range(5000)]
    assert opened(tmp_path, {"words": words}).strings("words").strs() == words


@pytest.mark.parametrize("native", [True, False])
def test_long_string_array_that_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    if not native:
        monkeypatch.setattr(library, "load", lambda: None)
    lengths = struct.pack("<iQ", 8, 5000) + bytes(8 * 4999) + struct.pack("<Q", 2**63)
    with pytest.raises(GgufError, match="the file ends inside the array 'words'"):
        opened(tmp_path, {"words": RawValue(9, lengths)})


def test_text_is_bytes_until_it_is_read(tmp_path: Path) -> None:
    gguf = opened(tmp_path, {"tokenizer.chat_template": b"ab\xff", "list": [b"fine", b"\xc3"], "n": 1})
    assert gguf.u32("n") == 1
    with pytest.raises(GgufError, match=r"tokenizer\.chat_template.* not UTF-8 at byte 2"):
        gguf.string("tokenizer.chat_template")
    assert gguf.strings("list")[1] == b"\xc3"
    with pytest.raises(GgufError, match="element 1 of 'list' is not UTF-8"):
        gguf.strings("list").strs()


def test_typed_readers_accept_every_integer_width(tmp_path: Path) -> None:
    gguf = opened(tmp_path, {"u8": np.uint8(7), "i64": np.int64(7), "u32": 2**32 - 1, "f64": np.float64(0.25)})
    assert (gguf.u32("u8"), gguf.u32("i64"), gguf.u32("u32")) == (7, 7, 2**32 - 1)
    assert gguf.f32("f64") == 0.25


@pytest.mark.parametrize(
    ("reader", "value", "found"),
    [
        ("u32", -1, "the int -1"),
        ("u32", 2**32, "the int 4294967296"),
        ("u32", True, "the bool True"),
        ("u32", 1.5, "the float 1.5"),
        ("u32", "8", "the text '8'"),
        ("f32", 1, "the int 1"),
        ("f32", ["a", "b"], "an array of 2 strings"),
        ("boolean", 1, "the int 1"),
        ("string", np.zeros(3, np.int16), "an array of 3 int16"),
        ("array", ["a"], "an array of 1 strings"),
        ("strings", np.zeros(1, np.uint8), "an array of 1 uint8"),
    ],
)
def test_typed_readers_name_key_and_what_they_found(tmp_path: Path, reader: str, value: Any, found: str) -> None:
    stored = np.int64(value) if type(value) is int else value
    gguf = opened(tmp_path, {"some.key": stored})
    with pytest.raises(GgufError, match=f"'some.key': expected .*, found {found}") as caught:
        getattr(gguf, reader)("some.key")
    assert str(caught.value).startswith(str(gguf.path))
    assert isinstance(caught.value, ModelFileError)


@pytest.mark.parametrize("reader", ["u32", "f32", "boolean", "string", "array", "strings"])
def test_missing_keys(tmp_path: Path, reader: str) -> None:
    read = getattr(opened(tmp_path), reader)
    with pytest.raises(GgufError, match=r"'some\.key' is missing"):
        read("some.key")
    assert read("some.key", None) is None


def test_get_checks_the_kind(tmp_path: Path) -> None:
    gguf = opened(tmp_path, {"n": 3, "b": True})
    assert gguf.get("n", 0, int) == 3
    assert gguf.get("b", False, bool) is True
    assert gguf.get("absent", 1.5, float) == 1.5
    with pytest.raises(GgufError, match="'b': expected a value of type int"):
        gguf.get("b", 0, int)
    with pytest.raises(GgufError, match="'n': expected a value of type float"):
        gguf.get("n", 0.0, float)


def test_no_architecture(tmp_path: Path) -> None:
    with pytest.raises(GgufError, match=r"general\.architecture"):
        _ = opened(tmp_path).architecture


@pytest.mark.parametrize("alignment", [8, 64, 4096])
@pytest.mark.parametrize("pad_end", [True, False])
def test_declared_alignment_and_absent_padding_at_the_end(tmp_path: Path, alignment: int, pad_end: bool) -> None:
    tensors = [RawTensor("a", [3], 0, f32(1, 2, 3)), RawTensor("b", [1], 0, f32(9))]
    gguf = opened(tmp_path, {"general.alignment": alignment}, tensors, alignment=alignment, pad_end=pad_end)
    assert gguf.tensors["a"].float32().tolist() == [1, 2, 3]
    assert gguf.tensors["b"].float32().tolist() == [9]


def test_tensor_without_dimensions_is_one_value(tmp_path: Path) -> None:
    tensor = opened(tmp_path, {}, [RawTensor("scale", [], 0, f32(2.5))]).tensors["scale"]
    assert tensor.shape == (1,)
    assert tensor.float32().tolist() == [2.5]


def test_shape_bytes_and_rows_of_blocks(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 100, 2 * 3 * 2 * 34, dtype=np.uint8).tobytes()
    gguf = opened(tmp_path, {}, [RawTensor("experts", [64, 3, 2], 8, data)])
    tensor = gguf.tensors["experts"]
    assert (tensor.type, tensor.type_name, tensor.shape) == (GgmlType.Q8_0, "Q8_0", (2, 3, 64))
    assert (tensor.row_bytes, tensor.nbytes, tensor.elements) == (68, 408, 384)
    assert tensor.data.tobytes() == data
    assert not tensor.data.flags.writeable
    assert tensor.float32().shape == (2, 3, 64)


def test_only_the_rows_asked_for(tmp_path: Path) -> None:
    data = np.arange(12, dtype="<f2").tobytes()
    gguf = opened(tmp_path, {}, [RawTensor("m", [3, 4], 1, data), RawTensor("v", [3], 1, data[:6])])
    whole = gguf.tensors["m"].float32()
    for rows in (slice(1, 3), slice(0, 0), slice(-1, None), slice(None, None, 2)):
        np.testing.assert_array_equal(gguf.tensors["m"].float32(rows), whole[rows])
    with pytest.raises(ValueError, match="'v' has one dimension"):
        gguf.tensors["v"].float32(slice(0, 1))


def test_matrices_of_a_stack(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 100, 2 * 3 * 2 * 34, dtype=np.uint8).tobytes()
    tensors = [RawTensor("experts", [64, 3, 2], 8, data), RawTensor("odd", [8, 2, 2], 77, bytes(32))]
    gguf = opened(tmp_path, {}, tensors)
    stack = gguf.tensors["experts"]
    for index in range(2):
        matrix = stack.matrix(index)
        assert (matrix.name, matrix.shape, matrix.type, matrix.row_bytes) == (
            f"experts[{index}]",
            (3, 64),
            stack.type,
            68,
        )
        np.testing.assert_array_equal(matrix.float32(), stack.float32()[index])
        assert np.shares_memory(matrix.data, stack.data)
        for rows in (slice(1, 2), slice(1, None), slice(0, 99)):
            np.testing.assert_array_equal(stack.matrix(index, rows).float32(), stack.float32()[index, rows])
    for index in (-1, 2):
        with pytest.raises(ValueError, match=f"'experts' of shape .* has no matrix {index}"):
            stack.matrix(index)
    with pytest.raises(ValueError, match="has no matrix 0"):
        stack.matrix(0).matrix(0)
    with pytest.raises(GgufError, match="ggml type 77"):
        gguf.tensors["odd"].matrix(0)


def test_unknown_type_opens_and_is_refused_when_read(tmp_path: Path) -> None:
    tensors = [RawTensor("odd", [8], 77, bytes(8)), RawTensor("fine", [1], 0, f32(4))]
    gguf = opened(tmp_path, {}, tensors)
    assert gguf.tensors["fine"].float32().tolist() == [4]
    odd = gguf.tensors["odd"]
    assert (odd.type_name, odd.shape) == ("unknown type 77", (8,))
    for read in (lambda: odd.type, lambda: odd.data, lambda: odd.nbytes, lambda: odd.row_bytes, odd.float32):
        with pytest.raises(GgufError, match=r"tensor 'odd' .* type 77"):
            read()


def test_stored_but_never_as_weights(tmp_path: Path) -> None:
    tensor = opened(tmp_path, {}, [RawTensor("q", [256], 15, bytes(292))]).tensors["q"]
    with pytest.raises(GgufError, match="'q': values of type Q8_K cannot be read"):
        tensor.float32()


def test_prism_ternary_type_needs_prism_keys(tmp_path: Path) -> None:
    tensor = RawTensor("t", [128], 143, bytes(28))
    assert opened(tmp_path, {"prism.hadamard.version": 1}, [tensor]).tensors["t"].type is GgmlType.PTQ1_0
    with pytest.raises(GgufError, match="type 143"):
        _ = opened(tmp_path, {}, [tensor]).tensors["t"].type


def test_early_ternary_files_with_wide_blocks(tmp_path: Path) -> None:
    wide, narrow = [bytes([60, 0, *[k] * 32]) * 32 for k in (1, 2)], bytes(18 * 64)
    gguf = opened(tmp_path, {}, [RawTensor("a", [4096], 42, wide[0]), RawTensor("b", [4096], 42, wide[1])])
    assert [gguf.tensors[name].type for name in "ab"] == [GgmlType.PQ2_0] * 2
    assert gguf.tensors["b"].data.tobytes() == wide[1]
    gguf = opened(tmp_path, {}, [RawTensor("a", [4096], 42, narrow), RawTensor("b", [4096], 42, narrow)])
    assert [gguf.tensors[name].type for name in "ab"] == [GgmlType.Q2_0] * 2
    with pytest.raises(GgufError, match="'b' needs 1152 bytes"):  # one narrow, one cut short: not a wide file
        opened(tmp_path, {}, [RawTensor("a", [4096], 42, narrow), RawTensor("b", [4096], 42, wide[1])])


def test_arrays_outlive_the_file(tmp_path: Path) -> None:
    gguf = opened(tmp_path, {"words": ["a", "bc"], "n": np.arange(3)}, [RawTensor("t", [1], 0, f32(5))])
    words, numbers, tensor = gguf.strings("words"), gguf.array("n"), gguf.tensors["t"]
    gguf.close()
    assert not gguf.tensors
    assert not gguf.metadata
    assert (list(words), numbers.tolist(), tensor.float32().tolist()) == ([b"a", b"bc"], [0, 1, 2], [5])
    with opened(tmp_path, {"n": 1}) as other:
        assert other.u32("n") == 1
    assert "n" not in other.metadata


def test_files_of_the_gguf_package(tmp_path: Path) -> None:
    gguf = open_gguf(tiny_gguf(tmp_path / "tiny.gguf", quantization="Q8_0", metadata={"general.alignment": 64}))
    assert gguf.architecture == "llama"
    assert gguf.u32("llama.embedding_length") == 64
    embedding = gguf.tensors["token_embd.weight"]
    assert (embedding.type, embedding.shape[1]) == (GgmlType.Q8_0, 64)
    assert embedding.shape[0] == len(gguf.strings("tokenizer.ggml.tokens"))
    assert np.isfinite(embedding.float32()).all()
    assert struct.unpack_from("<I", gguf.path.read_bytes(), 4)[0] == gguf.version


@pytest.mark.real
def test_real_files(smollm2_path: Path, gemma3_path: Path) -> None:
    smollm2, gemma3 = open_gguf(smollm2_path), open_gguf(gemma3_path)
    assert (smollm2.architecture, len(smollm2.tensors), len(smollm2.strings("tokenizer.ggml.merges"))) == (
        "llama",
        272,
        48900,
    )
    assert smollm2.tensors["token_embd.weight"].shape == (49152, 576)
    assert smollm2.string("tokenizer.chat_template").startswith("{% for message in messages %}")
    assert (gemma3.architecture, len(gemma3.tensors)) == ("gemma3", 236)
    assert "tokenizer.chat_template" not in gemma3.metadata
    tokens = gemma3.strings("tokenizer.ggml.tokens")
    assert (len(tokens), tokens[106], tokens[262143]) == (262144, b"<end_of_turn>", b"<unused6241>")
