"""The files a model consists of: one, or the parts of a split set named `<stem>-00001-of-0000N.gguf`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from golem_host.weights.errors import GgufError
from golem_host.weights.header import Header, read_header

_PART_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True)
class Part:
    """One mapped file and its header."""

    path: Path
    buffer: mmap
    header: Header


def open_parts(path: Path) -> list[Part]:
    """Map the file, and when it is one part of a split set all parts, the first one first. Raises GgufError."""
    part = _open(path)
    count = _split_value(part, "split.count")
    if count <= 1:
        return [part]
    match = _PART_NAME.fullmatch(path.name)
    if match is None:
        raise GgufError(path, f"is one of {count} parts, so its name must end in -00001-of-{count:05}.gguf or alike")
    if int(match["count"]) != count:
        raise GgufError(path, f"its name says it is one of {int(match['count'])} parts, its 'split.count' is {count}")
    parts = []
    for number in range(1, count + 1):
        sibling = path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf")
        if number == int(match["number"]):
            parts.append(part)
        elif sibling.exists():
            parts.append(_open(sibling))
        else:
            raise GgufError(path, f"part {number} of {count} is missing: {sibling.name} must lie in the same folder")
        _check_place(parts[-1], number, count)
    _check_tensor_count(parts)
    return parts


def _open(path: Path) -> Part:
    if path.is_dir():
        raise GgufError(path, "is a directory, not a GGUF file; golem-host check tells which plugin takes it")
    try:
        # Before it is opened: that of a pipe waits until somebody writes to it.
        if path.exists() and not path.is_file():
            raise GgufError(path, "is not a regular file")
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise GgufError(path, "the file is empty")
            buffer = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:
        raise GgufError(path, f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    return Part(path, buffer, read_header(path, buffer))


def _check_place(part: Part, number: int, count: int) -> None:
    found_count = _split_value(part, "split.count")
    if found_count != count:
        raise GgufError(part.path, f"its 'split.count' is {found_count}, that of the other parts is {count}")
    found_number = _split_value(part, "split.no") + 1
    if found_number != number:
        raise GgufError(part.path, f"its name says part {number}, its 'split.no' says part {found_number}")


def _check_tensor_count(parts: list[Part]) -> None:
    found = sum(len(part.header.infos) for part in parts)
    promised = _split_value(parts[0], "split.tensors.count", found)
    if promised != found:
        raise GgufError(parts[0].path, f"the set holds {found} tensors, its 'split.tensors.count' is {promised}")


def _split_value(part: Part, key: str, default: int = 0) -> int:
    value = part.header.metadata.get(key, default)
    if type(value) is not int or value < 0:
        raise GgufError(part.path, f"'{key}': expected a count, found {value!r}")
    return value
