"""Safetensors files: mapped, everything checked before it is used.

Format (github.com/huggingface/safetensors): u64 size of the header, the header as JSON, then the tensors' bytes. The
header gives each tensor its dtype, shape and place; places follow each other without gaps to the end of the file.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from golem_host.weights.errors import SafetensorsError
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

__all__ = ["Safetensors", "SafetensorsError", "open_safetensors"]

MAX_HEADER_BYTES = 100_000_000
"""The limit of the format's own library."""
MAX_DIMENSIONS = 8

_TYPES = {
    "F64": GgmlType.F64, "F32": GgmlType.F32, "F16": GgmlType.F16, "BF16": GgmlType.BF16,
    "I64": GgmlType.I64, "I32": GgmlType.I32, "I16": GgmlType.I16, "I8": GgmlType.I8,
}  # fmt: skip
_OTHER_BITS = {
    "BOOL": 8, "U8": 8, "U16": 16, "U32": 32, "U64": 64, "C64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits of a value of the types that are known and not read."""


def open_safetensors(path: str | Path) -> Safetensors:
    """Open a safetensors file. Raises SafetensorsError saying what is wrong with it."""
    path = Path(path)
    try:
        # Before it is opened: that of a pipe waits until somebody writes to it.
        if path.exists() and not path.is_file():
            raise SafetensorsError(path, "is not a regular file")
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise SafetensorsError(path, "the file is empty")
            buffer = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:
        raise SafetensorsError(path, f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    return Safetensors(path, buffer)


@dataclass(frozen=True)
class Raw:
    """A tensor whose type is not read here: what the file calls it, its shape and its bytes, a view of the mapping."""

    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


class Safetensors:
    """An open file; made by `open_safetensors`.

    `tensors` are views of the mapping by name, in file order; `unread` are the dtypes of those whose type is not read
    here, and `raw` what there is of them; `metadata` are the texts under `__metadata__`. A context manager: `close`
    lets go of the file.
    """

    def __init__(self, path: Path, buffer: mmap) -> None:
        self.path = path
        self.size_bytes = len(buffer)
        self._buffer = buffer
        header, self._start = self._header()
        self.metadata: Mapping[str, str] = MappingProxyType(self._texts(header.pop("__metadata__", {})))
        tensors: dict[str, Tensor] = {}
        raw: dict[str, Raw] = {}
        for name, entry, (begin, end) in self._placed(header):
            kind = _TYPES.get(entry["dtype"])
            if kind is None:
                data = np.frombuffer(buffer, np.uint8, end - begin, begin) if end > begin else np.empty(0, np.uint8)
                raw[name] = Raw(entry["dtype"], tuple(entry["shape"]), data)
            else:
                tensors[name] = self._tensor(name, tuple(entry["shape"]), kind, begin, end)
        self.tensors: Mapping[str, Tensor] = MappingProxyType(tensors)
        self.raw: Mapping[str, Raw] = MappingProxyType(raw)
        self.unread: Mapping[str, str] = MappingProxyType({name: each.dtype for name, each in raw.items()})

    def __enter__(self) -> Safetensors:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. It stays mapped as long as an array taken from it is alive."""
        self.tensors = MappingProxyType({})
        self.raw = MappingProxyType({})
        with contextlib.suppress(BufferError):  # arrays still point into it: unmapped with the last of them
            self._buffer.close()

    def _header(self) -> tuple[dict[str, Any], int]:
        """The header's object, and where the tensors' bytes begin."""
        if self.size_bytes < 8:
            self._refuse("not a safetensors file (it is shorter than the size of a header)")
        size = int.from_bytes(self._buffer[:8], "little")
        if self._buffer[8:9] != b"{":
            self._refuse("not a safetensors file (no header begins at byte 8)")
        if size > MAX_HEADER_BYTES:
            self._refuse(f"its header of {size} bytes is larger than the {MAX_HEADER_BYTES} the format allows")
        if 8 + size > self.size_bytes:
            self._refuse(
                f"its header of {size} bytes does not fit into the {self.size_bytes} bytes of the file: it is "
                "truncated, download it again"
            )
        try:
            header = json.loads(self._buffer[8 : 8 + size].decode("utf-8"), object_pairs_hook=self._unique)
        except UnicodeDecodeError as error:
            self._refuse(f"its header is not UTF-8 at byte {error.start}")
        except RecursionError:
            self._refuse("its header is nested too deep")
        except ValueError as error:
            self._refuse(f"its header is not JSON: {error}")
        if not isinstance(header, dict):
            self._refuse("its header is not an object")
        return header, 8 + size

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                self._refuse(f"'{name[:200]}' occurs twice in its header")
            found[name] = value
        return found

    def _texts(self, value: Any) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            self._refuse("'__metadata__' is not an object of texts")
        return value

    def _placed(self, header: dict[str, Any]) -> list[tuple[str, dict[str, Any], tuple[int, int]]]:
        """Every tensor with its bytes' place in the file, in that order; sizes, order and end checked."""
        found = [(name, entry, self._place(name, entry)) for name, entry in header.items()]
        found.sort(key=lambda tensor: tensor[2])
        at = self._start
        for name, _, (begin, end) in found:
            if begin != at:
                self._refuse(f"tensor '{name}' begins at byte {begin}, but the one before it ends at {at}")
            at = end
        if at != self.size_bytes:
            problem = "it is truncated, download it again" if at > self.size_bytes else "the rest belongs to nothing"
            self._refuse(f"its tensors end at byte {at}, the file at {self.size_bytes}: {problem}")
        return found

    def _place(self, name: str, entry: Any) -> tuple[int, int]:
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            self._refuse(f"tensor '{name}' is described by something else than dtype, shape and data_offsets")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or (dtype not in _TYPES and dtype not in _OTHER_BITS):
            self._refuse(f"tensor '{name}' has the unknown type {dtype!r}")
        if not _counts(shape) or len(shape) > MAX_DIMENSIONS or math.prod(shape) >= 1 << 60:
            self._refuse(f"tensor '{name}' has the shape {shape!r}, which is none")
        if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            self._refuse(f"tensor '{name}' lies at {offsets!r}, which is no place")
        bits = _TYPES[dtype].block_bytes * 8 if dtype in _TYPES else _OTHER_BITS[dtype]
        if math.prod(shape) * bits != (offsets[1] - offsets[0]) * 8:
            self._refuse(f"tensor '{name}' of type {dtype} and shape {shape} has {offsets[1] - offsets[0]} bytes")
        return self._start + offsets[0], self._start + offsets[1]

    def _tensor(self, name: str, shape: tuple[int, ...], kind: GgmlType, begin: int, end: int) -> Tensor:
        data = np.frombuffer(self._buffer, np.uint8, end - begin, begin) if end > begin else np.empty(0, np.uint8)
        if begin % kind.block_bytes:  # kernels and views want values where processors like them
            data = data.copy()
        return Tensor(name, shape or (1,), int(kind), self.path, (kind, data))

    def _refuse(self, reason: str) -> NoReturn:
        raise SafetensorsError(self.path, reason)


def _counts(value: Any) -> bool:
    """Whether it is a list of numbers that count something."""
    return isinstance(value, list) and all(type(number) is int and 0 <= number < 1 << 60 for number in value)
