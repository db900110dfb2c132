"""From tensor infos to tensors: every byte range is checked against its file before a view of it is made."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from golem_host.weights.errors import GgufError
from golem_host.weights.header import TensorInfo
from golem_host.weights.shards import Part
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType, ggml_type


def place_tensors(parts: list[Part]) -> dict[str, Tensor]:
    """The tensors of all parts by name, in file order.

    Raises GgufError, naming the tensor, for rows that are not whole blocks, data that leaves its file or runs into the
    next tensor, and names that occur in two parts.
    """
    is_prism = any(key.startswith("prism.") for key in parts[0].header.metadata)
    tensors: dict[str, Tensor] = {}
    for part in parts:
        wide_q2_0 = _has_wide_q2_0(part)
        for info in part.header.infos:
            if info.name in tensors:
                raise GgufError(part.path, f"tensor '{info.name}' occurs in another part as well")
            kind = ggml_type(info.type_id)
            if kind is GgmlType.Q2_0 and wide_q2_0:
                kind = GgmlType.PQ2_0
            if kind is GgmlType.PTQ1_0 and not is_prism:  # another fork uses this id for another layout
                kind = None
            tensors[info.name] = _tensor(part, info, kind)
        _check_overlap(part, tensors)
    return tensors


def _tensor(part: Part, info: TensorInfo, kind: GgmlType | None) -> Tensor:
    if kind is None:
        return Tensor(info.name, info.shape, info.type_id, part.path, None)
    if info.shape[-1] % kind.block_size:
        raise GgufError(
            part.path,
            f"tensor '{info.name}' has rows of {info.shape[-1]} values, which are no whole blocks of {kind.name} "
            f"({kind.block_size} values)",
        )
    size = _data_bytes(info, kind)
    if info.offset + size > len(part.buffer):
        raise GgufError(
            part.path,
            f"tensor '{info.name}' needs {size} bytes at {info.offset}, but the file has {len(part.buffer)}: it is "
            "truncated, download it again",
        )
    return Tensor(
        info.name, info.shape, info.type_id, part.path, (kind, np.frombuffer(part.buffer, np.uint8, size, info.offset))
    )


def _check_overlap(part: Part, tensors: dict[str, Tensor]) -> None:
    ordered = sorted(part.header.infos, key=lambda info: info.offset)
    for info, following in pairwise(ordered):
        stored = tensors[info.name].stored
        end = info.offset + (1 if stored is None else len(stored[1]))
        if end > following.offset:
            raise GgufError(part.path, f"the data of tensor '{info.name}' runs into that of tensor '{following.name}'")


def _has_wide_q2_0(part: Part) -> bool:
    """Whether the file's Q2_0 has blocks of 128 values instead of 64.

    Early ternary Bonsai files declare id 42 for what is now PQ2_0. The room up to the next tensor tells: too little for
    blocks of 64 somewhere, and just what blocks of 128 and padding take everywhere.
    """
    ordered = sorted(part.header.infos, key=lambda info: info.offset)
    ends = [*(info.offset for info in ordered[1:]), len(part.buffer)]
    too_small = False
    for info, end in zip(ordered, ends, strict=False):  # one end too many when there are no tensors
        if info.type_id != GgmlType.Q2_0:
            continue
        room, wide = end - info.offset, _data_bytes(info, GgmlType.PQ2_0)
        if info.shape[-1] % GgmlType.PQ2_0.block_size or not wide <= room < wide + part.header.alignment:
            return False
        too_small = too_small or room < _data_bytes(info, GgmlType.Q2_0)
    return too_small


def _data_bytes(info: TensorInfo, kind: GgmlType) -> int:
    return math.prod(info.shape) // kind.block_size * kind.block_bytes
