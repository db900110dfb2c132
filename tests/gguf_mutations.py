"""GGUF files that lie: orderly small ones, changed at random in their metadata, their tensors, or byte by byte.

A file is kept as the pairs and tensors it is written from, so that a change can be one that makes sense to a reader (a
count that is off by one, a key of another type, a tensor turned round) and not only noise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from golem_host.testing.raw_gguf import RawTensor, RawValue, gguf_bytes, raw_value
from golem_host.weights import Gguf, open_gguf
from golem_host.weights.strings import StringArray

INTEGERS = (
    *(0, 1, 2, 3, 4, 5, 7, 16, 31, 64, 255, 1024, 4096, 65535),
    *(2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    *(-1, -2, -(2**31), -(2**63)),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3e38, float("nan"), float("inf"), float("-inf"))
TEXTS = (b"", b"a", b"linear", b"yarn", b"none", b"gpt2", b"llama", b"\xff\xfe", b"\x1b[2J\n", b"{% for", b"x" * 5000)
WIDTHS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
TENSOR_TYPES = (*range(45), 77, 142, 143, -1, 2**31 - 1)


@dataclass(frozen=True)
class File:
    """What a GGUF file is written from. `asked` are keys and tensors a reader looks for, there or not."""

    pairs: tuple[tuple[str | bytes, RawValue], ...]
    tensors: tuple[RawTensor, ...]
    asked: tuple[str, ...] = ()

    def data(self) -> bytes:
        return gguf_bytes(self.pairs, self.tensors)


class Asked(Mapping[str, Any]):
    """A mapping that notes what it is asked for."""

    def __init__(self, values: Mapping[str, Any], names: set[str]) -> None:
        self._values = values
        self._names = names

    def __getitem__(self, name: str) -> Any:
        self._names.add(name)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        self._names.add(str(name))
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def file_of(path: Path, read: Callable[[Gguf], object]) -> File:
    """What the orderly file at `path` is written from; `read` is what a reader does with it."""
    with open_gguf(path) as gguf:
        pairs = tuple((key, raw_value(_plain(gguf.metadata[key]))) for key in gguf.metadata)
        tensors = tuple(
            RawTensor(tensor.name, tensor.shape[::-1], tensor.type_id, tensor.data.tobytes())
            for tensor in gguf.tensors.values()
        )
        names: set[str] = set()
        gguf.metadata, gguf.tensors = Asked(gguf.metadata, names), Asked(gguf.tensors, names)  # pyright: ignore
        read(gguf)
    return File(pairs, tensors, tuple(sorted(names)))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, StringArray) else value


def mutated(file: File, random: Random) -> bytes:
    """The file with one to three changes."""
    changes = random.choice((1, 1, 2, 3))
    for _ in range(changes):
        file = random.choice(_CHANGES)(file, random)
    data = file.data()
    return _noise(data, random) if random.random() < 0.25 else data


def _change_value(file: File, random: Random) -> File:
    at = random.randrange(len(file.pairs))
    key, value = file.pairs[at]
    return _with_pair(file, at, key, _lie(value, random))


def _add_key(file: File, random: Random) -> File:
    """A key that a reader asks for and the file lacks."""
    present = {key for key, _ in file.pairs}
    keys = [name for name in file.asked if "." in name and not name.endswith((".weight", ".bias", ".scale"))]
    missing = [key for key in keys if key not in present]
    if not missing:
        return file
    return replace(file, pairs=(*file.pairs, (random.choice(missing), _any_value(random))))


def _drop_key(file: File, random: Random) -> File:
    at = random.randrange(len(file.pairs))
    return replace(file, pairs=file.pairs[:at] + file.pairs[at + 1 :])


def _swap_values(file: File, random: Random) -> File:
    one, other = random.randrange(len(file.pairs)), random.randrange(len(file.pairs))
    swapped = _with_pair(file, one, file.pairs[one][0], file.pairs[other][1])
    return _with_pair(swapped, other, file.pairs[other][0], file.pairs[one][1])


def _rename_key(file: File, random: Random) -> File:
    at = random.randrange(len(file.pairs))
    names = [*file.asked, file.pairs[random.randrange(len(file.pairs))][0], b"\xff", b"", b"\x1b[1m", "k" * 300]
    return _with_pair(file, at, random.choice(names), file.pairs[at][1])


def _change_tensor(file: File, random: Random) -> File:
    if not file.tensors:
        return file
    at = random.randrange(len(file.tensors))
    tensor = file.tensors[at]
    changed = random.choice((_other_shape, _other_type, _other_offset, _other_data, _other_name))(tensor, file, random)
    return replace(file, tensors=(*file.tensors[:at], changed, *file.tensors[at + 1 :]))


def _other_shape(tensor: RawTensor, _: File, random: Random) -> RawTensor:
    dims = list(tensor.dims)
    match random.randrange(5 if dims else 4):
        case 0:
            dims.reverse()
        case 1:
            dims = [*dims, random.choice((0, 1, 2))]
        case 2:
            dims = dims[1:]
        case 3:
            dims = [random.choice(INTEGERS) for _ in range(random.randrange(7))]
        case _:
            at = random.randrange(len(dims))
            dims[at] = random.choice((dims[at] + 1, dims[at] - 1, 2 * dims[at], dims[at] // 2, random.choice(INTEGERS)))
    return replace(tensor, dims=[dim if -(2**63) <= dim < 2**63 else 2**63 - 1 for dim in dims])


def _other_type(tensor: RawTensor, _: File, random: Random) -> RawTensor:
    return replace(tensor, type_id=random.choice(TENSOR_TYPES))


def _other_offset(tensor: RawTensor, file: File, random: Random) -> RawTensor:
    total = sum(len(each.data) for each in file.tensors)
    return replace(tensor, offset=random.choice((0, 32, 31, total, total // 2 & ~31, 2**62, 2**63 - 32, 2**64 - 32)))


def _other_data(tensor: RawTensor, _: File, random: Random) -> RawTensor:
    pattern = random.choice((b"", tensor.data[:-32], tensor.data + bytes(64), b"\xff" * len(tensor.data)))
    return replace(tensor, data=pattern)


def _other_name(tensor: RawTensor, file: File, random: Random) -> RawTensor:
    names = [*(name for name in file.asked if "." in name), random.choice(file.tensors).name, b"\xff", "\x1b[1m\n", ""]
    return replace(tensor, name=random.choice(names))


def _add_tensor(file: File, random: Random) -> File:
    """A tensor that a reader asks for and the file lacks, of any shape."""
    present = {tensor.name for tensor in file.tensors}
    missing = [name for name in file.asked if name.endswith((".weight", ".bias", ".scale")) and name not in present]
    if not missing:
        return file
    like = random.choice(file.tensors)
    return replace(file, tensors=(*file.tensors, replace(like, name=random.choice(missing))))


def _drop_tensor(file: File, random: Random) -> File:
    if not file.tensors:
        return file
    at = random.randrange(len(file.tensors))
    return replace(file, tensors=file.tensors[:at] + file.tensors[at + 1 :])


_CHANGES: tuple[Callable[[File, Random], File], ...] = (
    *(_change_value,) * 5,
    *(_add_key,) * 3,
    _drop_key,
    _swap_values,
    _rename_key,
    *(_change_tensor,) * 3,
    _add_tensor,
    _drop_tensor,
)


def _with_pair(file: File, at: int, key: str | bytes, value: RawValue) -> File:
    return replace(file, pairs=(*file.pairs[:at], (key, value), *file.pairs[at + 1 :]))


def _lie(value: RawValue, random: Random) -> RawValue:
    """A value near this one, or any other."""
    if value.kind in WIDTHS and random.random() < 0.5:
        number = struct.unpack(WIDTHS[value.kind], value.data)[0]
        return _integer(random.choice((number + 1, number - 1, 2 * number, number // 2, -number, 8 * number)), random)
    if value.kind == 9 and random.random() < 0.5:
        element, count = struct.unpack_from("<iQ", value.data)
        match random.randrange(4):
            case 0:  # another count over the same bytes
                count = random.choice((0, 1, count + 1, max(0, count - 1), *(abs(each) for each in INTEGERS)))
                return RawValue(9, struct.pack("<iQ", element, min(count, 2**64 - 1)) + value.data[12:])
            case 1:  # other bytes of the same size
                return RawValue(9, value.data[:12] + random.randbytes(len(value.data) - 12))
            case 2:
                return RawValue(9, struct.pack("<iQ", random.randrange(-1, 14), count) + value.data[12:])
            case _:
                return RawValue(9, value.data[: random.randrange(len(value.data) + 1)])
    return _any_value(random)


def _any_value(random: Random) -> RawValue:
    match random.randrange(6):
        case 0 | 1:
            return _integer(random.choice(INTEGERS), random)
        case 2:
            with np.errstate(over="ignore"):
                return raw_value(random.choice((np.float32, np.float64))(random.choice(FLOATS)))
        case 3:
            return raw_value(random.choice(TEXTS))
        case 4:
            return raw_value(random.random() < 0.5)
        case _:
            return _any_array(random)


def _any_array(random: Random) -> RawValue:
    count = random.choice((0, 1, 2, 3, 7, 500))
    match random.randrange(4):
        case 0:
            return raw_value([random.choice(TEXTS[:8]) for _ in range(count)])
        case 1:
            return raw_value(np.array([random.choice(FLOATS) for _ in range(count)], np.float32))
        case 2:
            return raw_value(np.array([random.random() < 0.5 for _ in range(count)], bool))
        case _:
            numbers = [random.choice(INTEGERS) % 2**31 for _ in range(count)]
            return raw_value(np.array(numbers, random.choice((np.int32, np.int64, np.uint32))))


def _integer(number: int, random: Random) -> RawValue:
    """The number in some width that holds it, else wrapped into 64 bits."""
    for kind in random.sample((4, 5, 10, 11, 0, 2), 6):
        try:
            return RawValue(kind, struct.pack(WIDTHS[kind], number))
        except struct.error:
            continue
    return RawValue(10, struct.pack("<Q", number % 2**64))


def _noise(data: bytes, random: Random) -> bytes:
    """Bytes changed, cut off, added."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(max(1, len(changed)))
        match random.randrange(5):
            case 0:
                changed[at : at + 8] = struct.pack("<Q", random.choice(INTEGERS) % 2**64)
            case 1:
                changed[at : at + 4] = struct.pack("<I", random.choice(INTEGERS) % 2**32)
            case 2:
                del changed[at:]
            case 3:
                changed[at:at] = random.randbytes(random.choice((1, 4, 8, 32)))
            case _:
                changed[at : at + 1] = random.randbytes(1)
    return bytes(changed)
