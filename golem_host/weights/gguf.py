"""GGUF model files: mapped, single or split, everything checked before it is used."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from golem_host.weights.errors import GgufError
from golem_host.weights.header import Text
from golem_host.weights.placement import place_tensors
from golem_host.weights.shards import Part, open_parts
from golem_host.weights.strings import StringArray
from golem_host.weights.tensor import Tensor

__all__ = ["Gguf", "GgufError", "open_gguf"]

T = TypeVar("T")
_REQUIRED: Any = object()


def open_gguf(path: str | Path) -> Gguf:
    """Open a GGUF file, or a whole split set from any of its parts. Raises GgufError saying what is wrong."""
    return Gguf(open_parts(Path(path)))


class Metadata(Mapping[str, Any]):
    """Keys and values of the header: int, float, bool, str, numpy arrays (views of the file) and StringArray.

    Text is decoded when it is read: reading a value that is not UTF-8 raises GgufError naming the key.
    """

    def __init__(self, path: Path, buffer: mmap.mmap, values: Mapping[str, Any]) -> None:
        self._path = path
        self._buffer = buffer
        self._values = values

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if not isinstance(value, Text):
            return value
        try:
            return self._buffer[value.at : value.at + value.length].decode("utf-8")
        except UnicodeDecodeError as error:
            raise GgufError(self._path, f"the text of '{key}' is not UTF-8 at byte {error.start}") from None

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Gguf:
    """An open model file; made by `open_gguf`.

    `path` is the first part, `paths` all of them; `metadata` is that of the first part (the others carry only their
    place in the set); `tensors` are those of all parts by name, in file order; `size_bytes` is the sum of the files.
    """

    def __init__(self, parts: list[Part]) -> None:
        first = parts[0]
        self.path: Path = first.path
        self.paths: tuple[Path, ...] = tuple(part.path for part in parts)
        self.version: int = first.header.version
        self.size_bytes: int = sum(len(part.buffer) for part in parts)
        self.metadata = Metadata(first.path, first.buffer, first.header.metadata)
        self.tensors: Mapping[str, Tensor] = MappingProxyType(place_tensors(parts))
        self._buffers = [part.buffer for part in parts]

    def __enter__(self) -> Gguf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def architecture(self) -> str:
        """`general.architecture`. Raises GgufError when the file names none."""
        return self.string("general.architecture")

    def close(self) -> None:
        """Let go of the files. A file stays mapped as long as an array taken from it is alive."""
        self.tensors = MappingProxyType({})
        self.metadata = Metadata(self.path, self._buffers[0], {})
        for buffer in self._buffers:
            try:
                buffer.close()
            except BufferError:  # arrays still point into it: unmapped with the last of them
                continue

    def get(self, key: str, default: T, kind: type[T]) -> T:
        """The value of `key`, or `default` when the file lacks it. Raises GgufError for a value not of `kind`."""
        if key not in self.metadata:
            return default
        value = self.metadata[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self._wrong_type(key, value, f"a value of type {kind.__name__}")
        return value

    @overload
    def u32(self, key: str) -> int: ...
    @overload
    def u32(self, key: str, default: T) -> int | T: ...
    def u32(self, key: str, default: Any = _REQUIRED) -> Any:
        """An integer of any stored width in 0..2^32-1; `default` when absent. Raises GgufError naming key and value."""
        value = self._value(key, default)
        if value is default:
            return default
        if type(value) is not int or not 0 <= value < 1 << 32:
            self._wrong_type(key, value, "an integer from 0 to 4294967295")
        return value

    @overload
    def f32(self, key: str) -> float: ...
    @overload
    def f32(self, key: str, default: T) -> float | T: ...
    def f32(self, key: str, default: Any = _REQUIRED) -> Any:
        """A finite floating-point number; `default` when absent. Raises GgufError naming key and value."""
        value = self._value(key, default)
        if value is default:
            return default
        if type(value) is not float or not math.isfinite(value):
            self._wrong_type(key, value, "a finite floating-point number")
        return value

    @overload
    def boolean(self, key: str) -> bool: ...
    @overload
    def boolean(self, key: str, default: T) -> bool | T: ...
    def boolean(self, key: str, default: Any = _REQUIRED) -> Any:
        """A truth value; `default` when absent. Raises GgufError naming key and value."""
        value = self._value(key, default)
        if value is default:
            return default
        if type(value) is not bool:
            self._wrong_type(key, value, "true or false")
        return value

    @overload
    def string(self, key: str) -> str: ...
    @overload
    def string(self, key: str, default: T) -> str | T: ...
    def string(self, key: str, default: Any = _REQUIRED) -> Any:
        """Text; `default` when absent. Raises GgufError naming key and value, also when it is not UTF-8."""
        value = self._value(key, default)
        if value is default:
            return default
        if type(value) is not str:
            self._wrong_type(key, value, "text")
        return value

    @overload
    def array(self, key: str) -> NDArray[Any]: ...
    @overload
    def array(self, key: str, default: T) -> NDArray[Any] | T: ...
    def array(self, key: str, default: Any = _REQUIRED) -> Any:
        """A one-dimensional array of numbers or bools, in the file's width; `default` when absent. Raises GgufError."""
        value = self._value(key, default)
        if value is default:
            return default
        if not isinstance(value, np.ndarray):
            self._wrong_type(key, value, "an array of numbers")
        return value

    @overload
    def strings(self, key: str) -> StringArray: ...
    @overload
    def strings(self, key: str, default: T) -> StringArray | T: ...
    def strings(self, key: str, default: Any = _REQUIRED) -> Any:
        """An array of strings, left in the file; `default` when absent. Raises GgufError."""
        value = self._value(key, default)
        if value is default:
            return default
        if not isinstance(value, StringArray):
            self._wrong_type(key, value, "an array of strings")
        return value

    def _value(self, key: str, default: Any) -> Any:
        if key in self.metadata:
            return self.metadata[key]
        if default is _REQUIRED:
            raise GgufError(self.path, f"metadata key '{key}' is missing")
        return default

    def _wrong_type(self, key: str, value: Any, expected: str) -> NoReturn:
        raise GgufError(self.path, f"'{key}': expected {expected}, found {_describe(value)}")


def _describe(value: Any) -> str:
    if isinstance(value, StringArray):
        return f"an array of {len(value)} strings"
    if isinstance(value, np.ndarray):
        return f"an array of {len(value)} {value.dtype.name}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return f"the {type(value).__name__} {value!r}"
