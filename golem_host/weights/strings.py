"""Arrays of strings in a GGUF file, kept where they lie."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from mmap import mmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golem_host.weights.errors import GgufError

_LENGTH = struct.Struct("<Q")
_NATIVE_FROM = 4096  # below this many strings loading the kernel library costs more than it saves


class StringArray:
    """A GGUF array of strings: a view of the mapped file, copied element by element as it is read.

    `offsets` has count + 1 entries: where each element's u64 length lies, and where the array ends.
    """

    def __init__(self, path: Path, key: str, buffer: mmap, offsets: NDArray[np.int64]) -> None:
        self._path = path
        self._key = key
        self._view = memoryview(buffer)  # keeps the file mapped
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"'{self._key}' has {len(self)} elements; there is no element {index}")
        return bytes(self._view[int(self._offsets[index]) + 8 : int(self._offsets[index + 1])])

    def __iter__(self) -> Iterator[bytes]:
        """All elements: one copy of the bytes, then slices of it."""
        start = int(self._offsets[0])
        whole = bytes(self._view[start : int(self._offsets[-1])])
        ends = (self._offsets - start).tolist()
        return iter([whole[begin + 8 : end] for begin, end in pairwise(ends)])

    def strs(self) -> list[str]:
        """All elements as text. Raises GgufError, naming key and element, for bytes that are not UTF-8."""
        texts = []
        for index, raw in enumerate(self):
            try:
                texts.append(raw.decode("utf-8"))
            except UnicodeDecodeError:
                raise GgufError(self._path, f"element {index} of '{self._key}' is not UTF-8") from None
        return texts


def walk(buffer: mmap, at: int, count: int) -> NDArray[np.int64] | None:
    """Offsets of `count` strings that lie back to back from `at`, and of their end; None when they leave the file.

    The caller has checked that `count` length fields fit into the file.
    """
    return _walk_native(buffer, at, count) if count >= _NATIVE_FROM else _walk(buffer, at, count)


def _walk_native(buffer: mmap, at: int, count: int) -> NDArray[np.int64] | None:
    from golem_host.kernels.library import LibraryError, load

    try:
        kernels = load()
    except LibraryError:  # the device that needs the library reports it; files can be read without
        kernels = None
    if kernels is None:
        return _walk(buffer, at, count)
    try:
        return kernels.walk_strings(buffer, at, count)
    except ValueError:
        return None


def _walk(buffer: mmap, at: int, count: int) -> NDArray[np.int64] | None:
    offsets = [at]
    last, unpack = len(buffer) - 8, _LENGTH.unpack_from
    for _ in range(count):
        if at > last:
            return None
        at += 8 + unpack(buffer, at)[0]
        offsets.append(at)
    return np.array(offsets, np.int64) if at <= len(buffer) else None
