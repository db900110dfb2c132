"""Safetensors files for tests."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint16": "BF16", "uint8": "U8",
}  # fmt: skip
"""numpy has no bfloat16: its words stand for it."""


def safetensors_bytes(
    tensors: Mapping[str, NDArray], metadata: Mapping[str, str] | None = None, dtypes: Mapping[str, str] | None = None
) -> bytes:
    """A whole file; tensors in the order given. `dtypes` names the types of those that numpy has none for."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    chunks: list[bytes] = []
    at = 0
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value).tobytes()
        offsets = [at, at + len(raw)]
        header[name] = {
            "dtype": (dtypes or {}).get(name) or _DTYPES[value.dtype.name],
            "shape": list(value.shape),
            "data_offsets": offsets,
        }
        chunks.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *chunks])
