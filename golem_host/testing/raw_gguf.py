"""GGUF files byte by byte, for tests of readers: nothing is checked, so broken files can be written, too."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_CODES = {
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "uint32": 4,
    "int32": 5,
    "float32": 6,
    "bool": 7,
    "uint64": 10,
    "int64": 11,
    "float64": 12,
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class RawTensor:
    """A tensor as the header describes it and its bytes; `dims` in ggml order; without `offset` after the last."""

    name: str | bytes
    dims: Sequence[int]
    type_id: int
    data: bytes
    offset: int | None = None


@dataclass(frozen=True)
class RawValue:
    """A metadata value given as its type number and its bytes."""

    kind: int
    data: bytes


def gguf_bytes(
    metadata: Mapping[str, Any] | Sequence[tuple[str | bytes, Any]] = (),
    tensors: Sequence[RawTensor] = (),
    *,
    version: int = 3,
    alignment: int = 32,
    pad_end: bool = True,
) -> bytes:
    """A whole file.

    Values: bool, int (as u32), float (f32), str, bytes (a string), numpy scalars and arrays (their own width), lists of
    str or bytes, RawValue. `alignment` is what the data is laid out with; give `general.alignment` yourself.
    """
    pairs = list(metadata.items()) if isinstance(metadata, Mapping) else list(metadata)
    out = bytearray(b"GGUF" + struct.pack("<Iqq", version, len(tensors), len(pairs)))
    for key, value in pairs:
        raw = raw_value(value)
        out += _string(key) + struct.pack("<i", raw.kind) + raw.data
    blob = bytearray()
    for tensor in tensors:
        offset = len(blob) if tensor.offset is None else tensor.offset
        dims = struct.pack(f"<I{len(tensor.dims)}q", len(tensor.dims), *tensor.dims)
        out += _string(tensor.name) + dims + struct.pack("<iQ", tensor.type_id, offset)
        blob += tensor.data
        blob += bytes(-len(blob) % alignment)
    out += bytes(-len(out) % alignment)
    unpadded = len(out) + len(blob)
    if tensors and not pad_end:
        unpadded -= -len(tensors[-1].data) % alignment
    return bytes(out + blob)[:unpadded]


def _string(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def raw_value(value: Any) -> RawValue:
    """A metadata value as it is written; of the kinds `gguf_bytes` takes."""
    if isinstance(value, RawValue):
        return value
    if isinstance(value, str | bytes):
        return RawValue(_STRING, _string(value))
    if isinstance(value, list):
        items = b"".join(_string(item) for item in value)
        return RawValue(_ARRAY, struct.pack("<iQ", _STRING, len(value)) + items)
    if isinstance(value, np.ndarray):
        return RawValue(_ARRAY, struct.pack("<iQ", _CODES[value.dtype.name], value.size) + value.tobytes())
    if isinstance(value, bool):
        value = np.bool_(value)
    elif type(value) is int:
        value = np.uint32(value)
    elif type(value) is float:
        value = np.float32(value)
    return RawValue(_CODES[value.dtype.name], value.tobytes())
