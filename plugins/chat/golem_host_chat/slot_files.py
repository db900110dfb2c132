"""Slots in files: a line that says what it is, a header in JSON, the values, and the sha256 of all that.

A file is written beside its name and then renamed, so that there is a whole one or none. It is read only into a slot of
the kind it was saved from, of the same model, computed in the same way: then what follows has the same bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from golem_host.memory import available_bytes
from golem_host_chat.memory import SlotCopy, SlotMemory
from golem_host_chat.slot_actions import Saved
from golem_host_chat.slots import Held

MAGIC = b"golem-host slot 1\n"
LENGTH_BYTES = 8
MAX_HEADER = 1 << 20
MAX_CHECKPOINTS = 1024
SHA256_BYTES = 32


class SlotFileError(Exception):
    """Why a file cannot be restored, for the client."""


def write_slot(path: Path, saved: Saved, identity: Mapping[str, Any]) -> int:
    """Write `saved`; the size of the file. `identity` is what a reader must have in common. Raises OSError."""
    header = json.dumps(
        {
            "identity": identity,
            "tokens": len(saved.tokens),
            "high_water": saved.high_water,
            "restored": saved.restored,
            "checkpoints": [copy.position for copy in saved.copies],
        }
    ).encode()
    draft = path.with_name(f".{secrets.token_hex(16)}.tmp")
    digest = hashlib.sha256()
    try:
        with draft.open("xb") as file:
            for part in (MAGIC, len(header).to_bytes(LENGTH_BYTES, "little"), header, *_payload(saved)):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return size


def read_slot(path: Path, memory: SlotMemory, identity: Mapping[str, Any], *, context: int, vocab_size: int) -> Saved:
    """What was written to `path`. Raises `SlotFileError` for anything that is not to be put into a slot."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SlotFileError("it is no file")
        with path.open("rb") as file:
            return _Reader(file).read(memory, identity, context, vocab_size)
    except OSError as error:
        raise SlotFileError(error.strerror or str(error)) from error
    except ValueError as error:  # positions that are not at once in a cache
        raise SlotFileError("its header is damaged") from error
    except MemoryError as error:
        raise SlotFileError("there is not enough memory for it") from error


class _Reader:
    """Reads a file from its beginning, and hashes what it reads."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._digest = hashlib.sha256()

    def read(self, memory: SlotMemory, identity: Mapping[str, Any], context: int, vocab_size: int) -> Saved:
        if self._bytes(len(MAGIC)) != MAGIC:
            raise SlotFileError("it is no slot file of this version")
        length = int.from_bytes(self._bytes(LENGTH_BYTES), "little")
        if length > MAX_HEADER:
            raise SlotFileError("its header is damaged")
        header = _header(self._bytes(length))
        _check_identity(header["identity"], identity)
        positions = _check_numbers(header, context)
        self._check_memory()
        tokens = np.empty(header["tokens"], "<i4")
        self._fill(tokens)
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocab_size:
            raise SlotFileError("it holds tokens outside the vocabulary")
        held = Held(tokens=tokens.tolist(), high_water=header["high_water"], restored=header["restored"])
        whole = self._filled(memory.blank_whole(held))
        copies = [self._filled(memory.blank_checkpoint(position)) for position in positions]
        found = self._digest.digest()
        if self._file.read() != found:
            raise SlotFileError("its content is damaged: the sha256 at its end does not fit")
        saved = Saved(whole=whole)
        saved.become(held)
        saved.copies = copies
        return saved

    def _check_memory(self) -> None:
        """All values are in the file, so it is about as large as they are."""
        free = available_bytes()
        if free is not None and 2 * self._size > free:
            raise SlotFileError("there is not enough memory for it")

    def _bytes(self, count: int) -> bytes:
        part = self._file.read(count)
        if len(part) < count:
            raise SlotFileError("the file is too short to be a saved slot")
        self._digest.update(part)
        return part

    def _filled(self, copy: SlotCopy) -> SlotCopy:
        if copy.nbytes > self._size:
            raise SlotFileError("the file is too short to be a saved slot")
        for array in _arrays(copy):
            self._fill(array)
        return copy

    def _fill(self, array: NDArray[Any]) -> None:
        view = _as_bytes(array)
        if len(view) and self._file.readinto(view) < len(view):  # type: ignore[attr-defined]
            raise SlotFileError("the file is too short to be a saved slot")
        self._digest.update(view)


def _payload(saved: Saved) -> Iterator[memoryview]:
    yield _as_bytes(np.array(saved.tokens, "<i4"))
    for copy in saved.copies_in_order():
        for array in _arrays(copy):
            yield _as_bytes(array)


def _arrays(copy: SlotCopy) -> Iterator[NDArray[Any]]:
    for cells in copy.cells:
        if cells is not None:
            yield cells.keys
            yield cells.values
    for state in copy.states:
        yield state.values


def _as_bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _header(raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        header = None
    names = {"identity", "tokens", "high_water", "restored", "checkpoints"}
    if not isinstance(header, dict) or set(header) != names or not isinstance(header["identity"], dict):
        raise SlotFileError("its header is damaged")
    return header


def _check_identity(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    # Through JSON, as the other was: lists and tuples are one there.
    for name, value in json.loads(json.dumps(wanted)).items():
        if found.get(name) != value:
            raise SlotFileError(f"it was saved with another {name}")


def _check_numbers(header: Mapping[str, Any], context: int) -> list[int]:
    """The positions of the checkpoints."""
    tokens, high_water, restored = header["tokens"], header["high_water"], header["restored"]
    positions = header["checkpoints"]
    if not isinstance(positions, list) or len(positions) > MAX_CHECKPOINTS:
        raise SlotFileError("its header is damaged")
    numbers = [tokens, high_water, restored, *positions]
    if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
        raise SlotFileError("its header is damaged")
    if not 0 <= tokens <= context:
        raise SlotFileError(f"its {tokens} tokens do not fit a slot of {context} positions")
    if not tokens - 1 <= high_water < context or not 0 <= restored <= tokens:
        raise SlotFileError("its header is damaged")
    if any(not 0 < position <= tokens for position in positions) or sorted(set(positions)) != positions:
        raise SlotFileError("its header is damaged")
    return positions
