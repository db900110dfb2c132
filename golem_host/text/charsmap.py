"""SentencePiece's precompiled character map: which stretches of a text are replaced by what before it is tokenized.

Format: `u32` size of a double array, the array, then the replacements, each ended by a NUL. The array is that of
darts-clone (Yata), its units of 32 bits as in `llm_tokenizer_ugm_session` of llama-vocab.cpp.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_LABEL = 1 << 31 | 0xFF
_IS_LEAF = 1 << 8
_VALUE = (1 << 31) - 1
_PRINTABLE = range(0x20, 0x7F)
_PLAIN_RUN = re.compile(rb"[ -~]+(?=[ -~]|\Z)")
_LENGTHS = [1] * 0xC2 + [2] * 0x1E + [3] * 0x10 + [4] * 5 + [1] * 11
"""Bytes of the UTF-8 character by its first byte."""


class CharsMap:
    """Replaces, from the left, the longest stretch that the map knows. Threads may share it.

    Raises ValueError for a map that is cut off; a damaged one is noticed when a text leads to the damage.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None:
        size = int.from_bytes(data[:4].tobytes(), "little")
        if len(data) < 4 or size % 4 or 4 + size >= len(data):
            raise ValueError(f"the character map's array of {size} bytes does not fit into its {len(data)} bytes")
        self._units: list[int] = np.frombuffer(data[4 : 4 + size].tobytes(), "<u4").tolist()
        self._replacements = data[4 + size :].tobytes()

    def normalize(self, text: str) -> str:
        """The text with everything replaced. Raises ValueError where the map is damaged."""
        data = text.encode()
        out: list[bytes] = []
        at = 0
        while at < len(data):
            plain = self._plain_run.match(data, at) if self._plain_run else None
            if plain:
                out.append(plain[0])
                at = plain.end()
                continue
            length, replacement = self._longest(data, at)
            if length:
                out.append(replacement)
            else:
                length = _LENGTHS[data[at]]
                out.append(data[at : at + length])
            at += length
        return b"".join(out).decode("utf-8", "replace")

    @cached_property
    def _plain_run(self) -> re.Pattern[bytes] | None:
        """Printable ASCII that nothing else follows stands for itself, unless the map says otherwise."""
        for first in _PRINTABLE:
            node = self._step(self._base(0), first)
            if node is None:
                continue
            after, is_leaf = node
            if is_leaf or any(self._step(after, second) for second in _PRINTABLE):
                return None
        return _PLAIN_RUN

    def _longest(self, data: bytes, at: int) -> tuple[int, bytes]:
        """How many bytes from `at` on the map replaces, and by what; (0, b"") for none."""
        node, found, value = self._base(0), 0, 0
        for end in range(at, len(data)):
            step = self._step(node, data[end])
            if step is None:
                break
            node, is_leaf = step
            if is_leaf:
                found, value = end + 1 - at, self._unit(node) & _VALUE
        return (found, self._replacement(value)) if found else (0, b"")

    def _step(self, node: int, byte: int) -> tuple[int, bool] | None:
        """The node below `node` by `byte`, and whether a stretch ends there."""
        index = node ^ byte
        unit = self._unit(index)
        if not byte or unit & _LABEL != byte:
            return None
        return index ^ self._base(index), bool(unit & _IS_LEAF)

    def _base(self, index: int) -> int:
        unit = self._unit(index)
        return unit >> 10 << ((unit & 1 << 9) >> 6)

    def _unit(self, index: int) -> int:
        if index >= len(self._units):
            raise ValueError(f"the character map points to unit {index}; it has {len(self._units)}")
        return self._units[index]

    def _replacement(self, at: int) -> bytes:
        end = self._replacements.find(b"\0", at)
        if end < 0:
            raise ValueError(f"the character map points to replacement {at}, which is not there")
        return self._replacements[at:end]
