"""How weights lie on the device: tiles of eight rows whose words stand side by side, so that lanes read neighbours.

A row is cut in pieces of eight words of codes, which is what shaders multiply at a time: 32 values of a quantized type,
16 halves, 8 floats. A row has an even number of pieces; missing ones are zero, like the missing rows of the last tile.
A tile holds planes one after another, and a plane [unit][row of the tile][words]: a unit is a piece, half a piece, two
pieces or a super-block of 256 values. Planes, as 32-bit words a unit and row (`shaders/formats.glsl` reads them):

    Q4_0, IQ4_NL   codes a piece: 4; two half scales a pair: 1
    Q4_1           codes: 4; half scale and half minimum a piece: 1
    Q5_0           codes: 4; fifth bits a piece: 1; scales a pair: 1
    Q5_1           codes: 4; fifth bits: 1; scale and minimum: 1
    Q8_0           codes a half piece: 4; scales a pair: 1
    Q2_K           codes a piece: 2; four bytes of scale and minimum a pair: 1; d and dmin a super-block: 1
    Q3_K           codes a piece: 2; third bits: 1; int8 scales a pair: 1; d as float32 a super-block: 1
    Q4_K, Q5_K     codes a piece: 4; (Q5_K) fifth bits: 1; the file's d, dmin and scales a super-block: 4
    Q6_K           low codes a piece: 4; high codes: 2; int8 scales a pair: 1; d as float32 a super-block: 1
    IQ4_XS         codes a piece: 4; the file's d and scales a super-block: 2
    Q1_0           bits a piece: 1; scale as float32 four pieces: 1
    Q2_0           codes a piece: 2; scale as float32 a pair: 1
    PQ2_0, PTQ1_0  codes a piece: 2; scale as float32 four pieces: 1
    F16, BF16, F32 values a half piece: 4

Four-bit codes: word i of a piece has values 4i..4i+3 in its low nibbles and 16+4i..16+4i+3 in its high ones. Two-bit
codes: word i of two has in bits 2j of its bytes values 16i+4j..16i+4j+3. One bit: bit i of byte b is value 4i+b.
Where codes are signed by an offset, the highest bit is stored inverted, which makes them two's complement. Codes -1 to
2 are stored as 1 to -2, those of Q1_0 as 1 for -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.weights.dequant import dequantize, ptq1_0_codes
from golem_host.weights.tensor import Tensor
from golem_host.weights.types import GgmlType

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

TILE = 8
"""Rows of a tile."""
_CHUNK_BYTES = 1 << 20  # of a file laid at a time: temporaries stay in the processor's caches


def piece_values(kind: GgmlType) -> int:
    """Values in a piece: eight words of them."""
    return {GgmlType.F32: 8, GgmlType.F16: 16, GgmlType.BF16: 16}.get(kind, 32)


def pieces(kind: GgmlType, columns: int) -> int:
    """Pieces of a row of `columns` values, an even number."""
    return -(-columns // (2 * piece_values(kind))) * 2


def has_layout(kind: GgmlType) -> bool:
    """Whether shaders read weights of this type."""
    return kind in _PLANES


def matrix_tiles(rows: int) -> int:
    """Tiles of one matrix."""
    return -(-rows // TILE)


def tiles(tensor: Tensor) -> int:
    """Tiles of a matrix or a stack of matrices; each matrix of a stack begins with a tile of its own."""
    *stack, rows, _ = tensor.shape
    return matrix_tiles(rows) * int(np.prod(stack))


def tile_bytes(kind: GgmlType, columns: int) -> int:
    """Bytes of a tile of rows of `columns` values, a multiple of 32. KeyError for a type without a layout."""
    blocks = np.zeros((1, -(-columns // kind.block_size), kind.block_bytes), np.uint8)
    return TILE * sum(plane.size * 4 for plane in _planes(kind, blocks, pieces(kind, columns)))


def lay(kind: GgmlType, rows: Bytes, columns: int) -> Bytes:
    """Tiles (count, tile bytes) of rows of a file (n, bytes of `columns` values); the last tile is filled with zeros.

    Raises ValueError when the bytes are not those of whole rows.
    """
    if columns % kind.block_size or rows.shape[1] != columns // kind.block_size * kind.block_bytes:
        raise ValueError(f"rows of {rows.shape[1]} bytes are not {columns} values of {kind.name}")
    count = matrix_tiles(len(rows))
    if len(rows) % TILE:
        rows = np.pad(rows, ((0, -len(rows) % TILE), (0, 0)))
    planes = _planes(kind, rows.reshape(len(rows), -1, kind.block_bytes), pieces(kind, columns))
    out = np.empty((count, sum(plane[0].size for plane in planes) * TILE), np.uint32)
    at = 0
    for plane in planes:
        units, words = plane.shape[1:]
        end = at + TILE * units * words
        side_by_side = plane.reshape(count, TILE, units, words).swapaxes(1, 2)
        out[:, at:end].reshape(side_by_side.shape)[:] = side_by_side
        at = end
    return out.view(np.uint8)


def laid(tensor: Tensor, chosen: range, kind: GgmlType) -> Iterator[Bytes]:
    """Tiles `chosen` of a matrix or stack, as flat bytes, some at a time; nothing is held beyond a few MiB.

    `kind` is the type of the tensor, or F32: then tiles hold its values.
    """
    rows, columns = tensor.shape[-2:]
    data = tensor.data.reshape(-1, rows, tensor.row_bytes)
    height = matrix_tiles(rows)
    step = max(1, _CHUNK_BYTES // (TILE * tensor.row_bytes))
    at = chosen.start
    while at < chosen.stop:
        matrix, tile = divmod(at, height)
        count = min(step, height - tile, chosen.stop - at)
        part = data[matrix, tile * TILE : (tile + count) * TILE]
        if kind is not tensor.type:
            part = _as_floats(tensor.type, part)
        yield lay(kind, part, columns).reshape(-1)
        at += count


def _as_floats(kind: GgmlType, rows: Bytes) -> Bytes:
    """Rows of a file as rows of float32."""
    values = dequantize(kind, rows.reshape(-1))
    assert values is not None
    return values.view(np.uint8).reshape(len(rows), -1)


def _planes(kind: GgmlType, blocks: Bytes, count: int) -> list[Words]:
    """The planes of blocks (n, blocks, block bytes) as (n, units, words), filled up to `count` pieces."""
    return [_fill(plane, units * count // 8) for plane, units in _PLANES[kind](blocks)]


def _fill(plane: Words, units: int) -> Words:
    missing = units - plane.shape[1]
    return np.pad(plane, ((0, 0), (0, missing), (0, 0))) if missing else plane


def _words(blocks: Bytes, first: int, count: int) -> Words:
    """Words `count` of each block, from byte `first` on: (n, blocks, count)."""
    return np.ascontiguousarray(blocks[..., first : first + 4 * count]).view("<u4")


Plane = tuple[Words, int]
"""Words (n, units, words), and how many units there are in eight pieces."""


def _codes4(blocks: Bytes, first: int) -> Words:
    return _words(blocks, first, 4)


def _pairs(halves: Bytes) -> Plane:
    """Two bytes for each piece, two pieces a word: (n, pieces, 2) to (n, pairs, 1)."""
    n, count, _ = halves.shape
    filled = np.zeros((n, count + count % 2, 2), np.uint8)
    filled[:, :count] = halves
    return filled.reshape(n, -1, 4).view("<u4"), 4


def _bits_of_word(bits: Words) -> Words:
    """Bit 4i+b of each word becomes bit i of byte b."""
    out = np.zeros_like(bits)
    for i in range(8):
        nibble = bits >> np.uint32(4 * i) & np.uint32(15)
        out |= (nibble * np.uint32(0x00204081) & np.uint32(0x01010101)) << np.uint32(i)
    return out


def _q4_0(blocks: Bytes) -> list[Plane]:
    return [(_codes4(blocks, 2) ^ np.uint32(0x88888888), 8), _pairs(blocks[..., :2])]


def _iq4_nl(blocks: Bytes) -> list[Plane]:
    return [(_codes4(blocks, 2), 8), _pairs(blocks[..., :2])]


def _q4_1(blocks: Bytes) -> list[Plane]:
    return [(_codes4(blocks, 4), 8), (_words(blocks, 0, 1), 8)]


def _q5_0(blocks: Bytes) -> list[Plane]:
    return [(_codes4(blocks, 6), 8), (~_bits_of_word(_words(blocks, 2, 1)), 8), _pairs(blocks[..., :2])]


def _q5_1(blocks: Bytes) -> list[Plane]:
    return [(_codes4(blocks, 8), 8), (_bits_of_word(_words(blocks, 4, 1)), 8), (_words(blocks, 0, 1), 8)]


def _q8_0(blocks: Bytes) -> list[Plane]:
    return [(_words(blocks, 2, 8).reshape(len(blocks), -1, 4), 16), _pairs(blocks[..., :2])]


def _q1_0(blocks: Bytes) -> list[Plane]:
    return [(_spread(~_bits_of_word(_words(blocks, 2, 4))[..., None]), 8), (_float_scale(blocks, 0)[0], 2)]


def _negated(codes: Words) -> Words:
    """Two-bit fields of value 1 + c to those of -c in two's complement."""
    return codes ^ np.uint32(0x55555555)


def _turned(words: Words) -> Words:
    """Bits 2b of byte j of each word become bits 2j of byte b."""
    out = words & np.uint32(0xC0300C03)
    for apart, low in ((1, 0x00C0300C), (2, 0x0000C030), (3, 0x000000C0)):
        shift, mask = np.uint32(6 * apart), np.uint32(low)
        out |= words >> shift & mask | (words & mask) << shift
    return out


def _two_bits(blocks: Bytes, units: int) -> list[Plane]:
    """A half scale, then two bits a value; so many blocks in eight pieces."""
    codes = _negated(_turned(_words(blocks, 2, (blocks.shape[-1] - 2) // 4)))
    return [(_spread(codes.reshape(*codes.shape[:2], -1, 2)), 8), (_float_scale(blocks, 0)[0], units)]


def _q2_0(blocks: Bytes) -> list[Plane]:
    return _two_bits(blocks, 4)


def _pq2_0(blocks: Bytes) -> list[Plane]:
    return _two_bits(blocks, 2)


def _ptq1_0(blocks: Bytes) -> list[Plane]:
    count = blocks.shape[:2]
    codes = (ptq1_0_codes(blocks.reshape(-1, blocks.shape[-1])) + 1).astype(np.uint8).reshape(*count, 8, 4, 4)
    packed = np.zeros((*count, 8, 4), np.uint8)
    for j in range(4):  # values 4j + b of 16
        packed |= codes[..., j, :] << np.uint8(2 * j)
    words = packed.reshape(*count, -1).view("<u4")
    return [(_spread(_negated(words).reshape(*count, 4, 2)), 8), (_float_scale(blocks, 26)[0], 2)]


def _values(blocks: Bytes) -> list[Plane]:
    flat = blocks.reshape(len(blocks), -1)
    filled = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 32)))
    return [(filled.view("<u4").reshape(len(blocks), -1, 4), 16)]


def _spread(words: Words) -> Words:
    """Words (n, super-blocks, eight pieces, words) as units of pieces."""
    return words.reshape(len(words), -1, words.shape[-1])


def _k_codes4(blocks: Bytes, first: int) -> Words:
    """Q4_K has in the nibbles of eight words one piece and the next; a piece of its own has four words."""
    pair = _words(blocks, first, 32).reshape(*blocks.shape[:2], 4, 2, 4)  # pair of pieces, half of a piece, words
    low, high = np.uint32(0x0F0F0F0F), np.uint32(0xF0F0F0F0)
    out = np.empty((*blocks.shape[:2], 4, 2, 4), np.uint32)  # pair of pieces, piece, words
    out[..., 0, :] = pair[..., 0, :] & low | pair[..., 1, :] << np.uint32(4) & high
    out[..., 1, :] = pair[..., 0, :] >> np.uint32(4) & low | pair[..., 1, :] & high
    return _spread(out.reshape(*blocks.shape[:2], 8, 4))


def _k_codes2(blocks: Bytes, first: int) -> Words:
    """Bits 2j of 32 bytes are piece j of four; a piece of its own has two words."""
    half = _words(blocks, first, 16).reshape(*blocks.shape[:2], 2, 8)  # of a super-block, words
    out = np.zeros((*blocks.shape[:2], 2, 4, 2), np.uint32)  # half of a super-block, piece, words
    for piece in range(4):
        two = half >> np.uint32(2 * piece) & np.uint32(0x03030303)
        for i in range(8):
            out[:, :, :, piece, i // 4] |= two[..., i] << np.uint32(2 * (i % 4))
    return _spread(out.reshape(*blocks.shape[:2], 8, 2))


def _k_codes1(blocks: Bytes, first: int) -> Words:
    """Bit j of 32 bytes belongs to piece j of eight."""
    words = _words(blocks, first, 8)
    out = np.zeros((*blocks.shape[:2], 8, 1), np.uint32)
    for piece in range(8):
        one = words >> np.uint32(piece) & np.uint32(0x01010101)
        for i in range(8):
            out[:, :, piece, 0] |= one[..., i] << np.uint32(i)
    return _spread(out)


def _byte_pairs(scales: Any) -> Plane:
    """One byte for each 16 values, two pieces a word: (n, super-blocks, 16) to (n, pairs, 1)."""
    return np.ascontiguousarray(scales).view("<u4").reshape(len(scales), -1, 1), 4


def _float_scale(blocks: Bytes, at: int) -> Plane:
    half = np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")
    with np.errstate(invalid="ignore"):
        return half.astype("<f4").view("<u4"), 1


def _q2_k(blocks: Bytes) -> list[Plane]:
    return [(_k_codes2(blocks, 16), 8), _byte_pairs(blocks[..., :16]), (_words(blocks, 80, 1), 1)]


def _q3_k(blocks: Bytes) -> list[Plane]:
    packed = blocks[..., 96:108]
    low = np.concatenate([packed[..., :8] & 15, packed[..., :8] >> 4], -1)
    high = np.concatenate([packed[..., 8:] >> shift & 3 for shift in (0, 2, 4, 6)], -1)
    scales = (low | high << 4).astype(np.uint8) - np.uint8(32)
    return [(_k_codes2(blocks, 32), 8), (~_k_codes1(blocks, 0), 8), _byte_pairs(scales), _float_scale(blocks, 108)]


def _q4_k(blocks: Bytes) -> list[Plane]:
    return [(_k_codes4(blocks, 16), 8), (_words(blocks, 0, 4), 1)]


def _q5_k(blocks: Bytes) -> list[Plane]:
    return [(_k_codes4(blocks, 48), 8), (_k_codes1(blocks, 16), 8), (_words(blocks, 0, 4), 1)]


def _q6_k(blocks: Bytes) -> list[Plane]:
    low = _words(blocks, 0, 32).reshape(*blocks.shape[:2], 2, 2, 2, 4)  # half of a super-block, piece, its half, words
    four, mask, top = np.uint32(4), np.uint32(0x0F0F0F0F), np.uint32(0xF0F0F0F0)
    codes = np.empty((*blocks.shape[:2], 2, 2, 2, 4), np.uint32)  # half of a super-block, nibble, piece, words
    codes[..., 0, :, :] = low[..., 0, :] & mask | low[..., 1, :] << four & top
    codes[..., 1, :, :] = low[..., 0, :] >> four & mask | low[..., 1, :] & top
    high = _k_codes2(blocks, 128) ^ np.uint32(0xAAAAAAAA)
    codes4 = _spread(codes.reshape(*blocks.shape[:2], 8, 4))
    return [(codes4, 8), (high, 8), _byte_pairs(blocks[..., 192:208]), _float_scale(blocks, 208)]


def _iq4_xs(blocks: Bytes) -> list[Plane]:
    return [(_spread(_words(blocks, 8, 32).reshape(*blocks.shape[:2], 8, 4)), 8), (_words(blocks, 0, 2), 1)]


_PLANES: dict[GgmlType, Callable[[Bytes], list[Plane]]] = {
    GgmlType.Q4_0: _q4_0,
    GgmlType.Q4_1: _q4_1,
    GgmlType.Q5_0: _q5_0,
    GgmlType.Q5_1: _q5_1,
    GgmlType.Q8_0: _q8_0,
    GgmlType.Q2_K: _q2_k,
    GgmlType.Q3_K: _q3_k,
    GgmlType.Q4_K: _q4_k,
    GgmlType.Q5_K: _q5_k,
    GgmlType.Q6_K: _q6_k,
    GgmlType.IQ4_NL: _iq4_nl,
    GgmlType.IQ4_XS: _iq4_xs,
    GgmlType.Q1_0: _q1_0,
    GgmlType.Q2_0: _q2_0,
    GgmlType.PQ2_0: _pq2_0,
    GgmlType.PTQ1_0: _ptq1_0,
    GgmlType.F16: _values,
    GgmlType.BF16: _values,
    GgmlType.F32: _values,
}
