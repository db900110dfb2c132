"""Values of block types: against the gguf package, and for types it lacks against their definition, value by value."""

from __future__ import annotations

import struct

import gguf
import numpy as np
import pytest

from golem_host.weights import GgmlType, dequant
from golem_host.weights.dequant import dequantize
from golem_host.weights.types import ggml_type

NEVER_STORED = {GgmlType.Q8_1, GgmlType.Q8_K}
PLAIN = {GgmlType.I8: "i1", GgmlType.I16: "<i2", GgmlType.I32: "<i4", GgmlType.I64: "<i8", GgmlType.F64: "<f8"}
DEFINED_HERE = {GgmlType.Q1_0, GgmlType.Q2_0, GgmlType.PQ2_0, GgmlType.PTQ1_0}
IN_GGUF = sorted(set(GgmlType) - NEVER_STORED - set(PLAIN) - DEFINED_HERE)


def random_bytes(kind: GgmlType, blocks: int = 257) -> np.ndarray:
    return np.random.default_rng(int(kind)).integers(0, 256, blocks * kind.block_bytes, dtype=np.uint8)


@pytest.mark.parametrize("kind", IN_GGUF, ids=lambda kind: kind.name)
def test_equals_the_gguf_package_bit_for_bit(kind: GgmlType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dequant, "_CHUNK_VALUES", 25_600)  # several chunks, the last one short
    data = random_bytes(kind)
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(data.reshape(1, -1), gguf.GGMLQuantizationType(int(kind))).reshape(-1)
    values = dequantize(kind, data)
    assert values is not None
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values.view(np.uint32), expected.astype(np.float32).view(np.uint32))


def test_sizes_are_those_of_the_gguf_package() -> None:
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        own = ggml_type(int(kind))
        if own in NEVER_STORED:
            continue
        assert own is not None, f"{kind.name} is not in the table"
        assert (own.name, own.block_size, own.block_bytes) == (kind.name, *sizes)


def scalar_value(kind: GgmlType, block: bytes, index: int) -> float:
    """One value of a block, from the layout's definition."""
    if kind is GgmlType.PTQ1_0:
        (scale,) = struct.unpack("<e", block[26:])
        if index < 80:
            byte, digit = block[index % 16], index // 16
        elif index < 120:
            byte, digit = block[16 + (index - 80) % 8], (index - 80) // 8
        else:
            byte, digit = block[24 + (index - 120) % 2], (index - 120) // 2
        return scale * ((byte * 3**digit % 256 * 3 >> 8) - 1)
    (scale,) = struct.unpack("<e", block[:2])
    if kind is GgmlType.Q1_0:
        return scale if block[2 + index // 8] >> index % 8 & 1 else -scale
    return scale * ((block[2 + index // 4] >> 2 * (index % 4) & 3) - 1)


@pytest.mark.parametrize("kind", sorted(DEFINED_HERE), ids=lambda kind: kind.name)
def test_equals_the_definition(kind: GgmlType) -> None:
    data = random_bytes(kind, blocks=20)
    raw = data.tobytes()
    blocks = [raw[start : start + kind.block_bytes] for start in range(0, len(raw), kind.block_bytes)]
    expected = [scalar_value(kind, block, index) for block in blocks for index in range(kind.block_size)]
    np.testing.assert_array_equal(dequantize(kind, data), np.array(expected, np.float32))


@pytest.mark.parametrize("kind", sorted(PLAIN), ids=lambda kind: kind.name)
def test_plain_numbers(kind: GgmlType) -> None:
    numbers = np.array([0, 1, -1, 100], PLAIN[kind])
    values = dequantize(kind, numbers.view(np.uint8))
    assert values is not None
    assert values.tolist() == [0, 1, -1, 100]


def test_no_rule_and_no_type() -> None:
    for kind in NEVER_STORED:
        assert dequantize(kind, bytes_of(kind.block_bytes)) is None
    assert ggml_type(4) is None
    assert ggml_type(-1) is None


def test_nothing_stays_nothing() -> None:
    for kind in (GgmlType.Q4_K, GgmlType.F32):
        values = dequantize(kind, bytes_of(0))
        assert values is not None
        assert values.shape == (0,)


def bytes_of(count: int) -> np.ndarray:
    return np.zeros(count, np.uint8)
