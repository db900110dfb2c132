"""The header of one GGUF file: metadata and tensor infos, every length checked against the file before it is used.

Layout: `gguf.h` of ggml. Little-endian; versions 2 and 3 are read, which differ in nothing that is stored here.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import IntEnum
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from golem_host.weights.errors import GgufError
from golem_host.weights.strings import StringArray, walk

MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
_MAX_ALIGNMENT = 1 << 24
_MAX_NAME_BYTES = 65_535  # the specification's limit for keys
_MIN_PAIR_BYTES = 8 + 4 + 1
_MIN_INFO_BYTES = 8 + 4 + 4 + 8


class ValueType(IntEnum):
    """Types of metadata values."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12


_DTYPES = {
    ValueType.U8: np.dtype("<u1"),
    ValueType.I8: np.dtype("<i1"),
    ValueType.U16: np.dtype("<u2"),
    ValueType.I16: np.dtype("<i2"),
    ValueType.U32: np.dtype("<u4"),
    ValueType.I32: np.dtype("<i4"),
    ValueType.F32: np.dtype("<f4"),
    ValueType.BOOL: np.dtype("u1"),
    ValueType.U64: np.dtype("<u8"),
    ValueType.I64: np.dtype("<i8"),
    ValueType.F64: np.dtype("<f8"),
}


class Text(NamedTuple):
    """A metadata string where it lies: not copied, not yet known to be UTF-8."""

    at: int
    length: int


@dataclass(frozen=True)
class TensorInfo:
    """What the header says of a tensor. `shape` is row-major; `offset` counts from the start of the file."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int


@dataclass(frozen=True)
class Header:
    """One file's header. A value of `metadata` is an int, float, bool, numpy array, StringArray, or a Text."""

    version: int
    alignment: int
    metadata: dict[str, Any]
    infos: list[TensorInfo]


def read_header(path: Path, buffer: mmap) -> Header:
    """Parse the header of the mapped file. Raises GgufError; allocates no more than the file can justify."""
    return _Parser(path, buffer).header()


class _Parser:
    def __init__(self, path: Path, buffer: mmap) -> None:
        self._path = path
        self._buffer = buffer
        self._size = len(buffer)
        self._at = 0

    def header(self) -> Header:
        version = self._version()
        tensor_count = self._count("<q", "tensors", _MIN_INFO_BYTES)
        pair_count = self._count("<q", "metadata keys", _MIN_PAIR_BYTES)
        metadata: dict[str, Any] = {}
        for index in range(pair_count):
            key = self._name(f"metadata key {index}")
            if key in metadata:
                self._refuse(f"metadata key '{key}' occurs twice")
            metadata[key] = self._value(key)
        alignment = self._alignment(metadata)
        infos = [self._info(index) for index in range(tensor_count)]
        self._at = -(-self._at // alignment) * alignment
        return Header(version, alignment, metadata, self._placed(infos, alignment))

    def _version(self) -> int:
        magic = bytes(self._buffer[:4])
        if magic != b"GGUF":
            self._refuse(f"not a GGUF file (it begins with {_shown(magic)})")
        self._at = 4
        version = self._scalar("<I", "the version")
        if version and version & 0xFFFF == 0:
            self._refuse(
                "a big-endian GGUF file; only little-endian ones are read, so convert it (gguf-convert-endian)"
            )
        if version not in (2, 3):
            self._refuse(f"GGUF version {version} is not supported (2 and 3 are); convert the model again")
        return version

    def _value(self, key: str) -> Any:
        kind = self._value_type(key)
        if kind is ValueType.STRING:
            length = self._length(f"the value of '{key}'")
            text = Text(self._at, length)
            self._at += length
            return text
        if kind is ValueType.ARRAY:
            return self._array(key)
        dtype = _DTYPES[kind]
        self._need(dtype.itemsize, f"the value of '{key}'")
        value = np.frombuffer(self._buffer, dtype, 1, self._at)[0].item()
        self._at += dtype.itemsize
        return bool(value) if kind is ValueType.BOOL else value

    def _array(self, key: str) -> Any:
        kind = self._value_type(key)
        if kind is ValueType.ARRAY:
            self._refuse(f"'{key}' is an array of arrays, which GGUF readers do not support")
        if kind is ValueType.STRING:
            count = self._count("<Q", f"elements of '{key}'", 8)
            offsets = walk(self._buffer, self._at, count)
            if offsets is None:
                self._refuse(f"the file ends inside the array '{key}'")
            self._at = int(offsets[-1])
            return StringArray(self._path, key, self._buffer, offsets)
        dtype = _DTYPES[kind]
        count = self._count("<Q", f"elements of '{key}'", dtype.itemsize)
        values = np.frombuffer(self._buffer, dtype, count, self._at)
        self._at += count * dtype.itemsize
        return values != 0 if kind is ValueType.BOOL else values

    def _value_type(self, key: str) -> ValueType:
        number = self._scalar("<i", f"the type of '{key}'")
        try:
            return ValueType(number)
        except ValueError:
            self._refuse(f"'{key}' has the unknown value type {number}")

    def _alignment(self, metadata: dict[str, Any]) -> int:
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        sane = type(alignment) is int and 0 < alignment <= _MAX_ALIGNMENT and alignment & (alignment - 1) == 0
        if not sane:
            self._refuse(f"'general.alignment' must be a power of two up to {_MAX_ALIGNMENT}, not {alignment!r}")
        return alignment

    def _info(self, index: int) -> TensorInfo:
        name = self._name(f"the name of tensor {index}")
        what = f"the description of tensor '{name}'"
        dimensions = self._scalar("<I", what)
        if dimensions > MAX_DIMENSIONS:
            self._refuse(f"tensor '{name}' has {dimensions} dimensions; at most {MAX_DIMENSIONS} are allowed")
        sizes = self._numbers(f"<{dimensions}q", what)
        if any(size <= 0 for size in sizes):
            self._refuse(f"tensor '{name}' has the dimensions {list(sizes)}; each must be positive")
        if math.prod(sizes) >= 1 << 63:
            self._refuse(f"tensor '{name}' has the dimensions {list(sizes)}: too many elements")
        type_id, offset = self._numbers("<iQ", what)
        return TensorInfo(name, tuple(reversed(sizes)) or (1,), type_id, offset)

    def _placed(self, infos: list[TensorInfo], alignment: int) -> list[TensorInfo]:
        """The same infos with offsets from the start of the file, checked for alignment, bounds and unique names."""
        placed: dict[str, TensorInfo] = {}
        for info in infos:
            if info.name in placed:
                self._refuse(f"tensor '{info.name}' occurs twice")
            if info.offset % alignment:
                self._refuse(f"tensor '{info.name}' lies at {info.offset}, not a multiple of the alignment {alignment}")
            start = self._at + info.offset
            if start >= self._size:
                self._refuse(
                    f"tensor '{info.name}' lies at byte {start}, but the file has {self._size}: it is truncated, "
                    "download it again"
                )
            placed[info.name] = TensorInfo(info.name, info.shape, info.type_id, start)
        return list(placed.values())

    def _name(self, what: str) -> str:
        length = self._length(what)
        if length > _MAX_NAME_BYTES:
            self._refuse(f"{what} has {length} bytes; at most {_MAX_NAME_BYTES} are allowed")
        raw = self._buffer[self._at : self._at + length]
        self._at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self._refuse(f"{what} is not UTF-8: {raw[:64]!r}")

    def _length(self, what: str) -> int:
        length = self._scalar("<Q", f"the length of {what}")
        self._need(length, what)
        return length

    def _count(self, code: str, what: str, least_bytes: int) -> int:
        count = self._scalar(code, f"the number of {what}")
        if not 0 <= count <= (self._size - self._at) // least_bytes:
            self._refuse(f"the header claims {count} {what}, more than the file ({self._size} bytes) can hold")
        return count

    def _scalar(self, code: str, what: str) -> int:
        return self._numbers(code, what)[0]

    def _numbers(self, code: str, what: str) -> tuple[int, ...]:
        size = struct.calcsize(code)
        self._need(size, what)
        values = struct.unpack_from(code, self._buffer, self._at)
        self._at += size
        return values

    def _need(self, length: int, what: str) -> None:
        if self._at + length > self._size:
            self._refuse(f"the file ends inside {what} ({length} bytes at {self._at}, the file has {self._size})")

    def _refuse(self, message: str) -> NoReturn:
        raise GgufError(self._path, message)


def _shown(magic: bytes) -> str:
    """A few bytes as text where they are printable ASCII, else in hexadecimal."""
    text = magic.decode("latin-1")
    return f"'{text}'" if text.isascii() and text.isprintable() else f"the bytes {magic.hex(' ')}"
