"""Block types to float32, in numpy: one function a type.

Layouts: ggml-common.h and `dequantize_row_*` of ggml-quants.c; results equal the `gguf` package's bit for bit. Each
function takes blocks as uint8 of shape (n, block_bytes) and returns float32 of shape (n, block_size); `_to_float` reads
little-endian half-precision scales. IQ1, IQ2 and IQ3 are left to `gguf`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golem_host.weights.types import GgmlType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Codes = NDArray[Any]  # small integers; numpy's stubs do not follow which

_CHUNK_VALUES = 1 << 20  # bounds the temporaries, which take several times the output
_IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
_E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
_POWERS_OF_3 = np.array([1, 3, 9, 27, 81], np.uint8)


def has_values(kind: GgmlType) -> bool:
    """Whether `dequantize` has a rule for this type. Q8_1 and Q8_K are for activations only."""
    return kind in _CONVERT or kind in _LEFT_TO_GGUF


def dequantize(kind: GgmlType, data: Bytes) -> Floats | None:
    """The values of whole blocks: `data` has shape (bytes,), the result (values,). None for a type without a rule.

    Scales come from the file and may be infinite or NaN; so may the values, without warnings.
    """
    if not has_values(kind):
        return None
    convert = _CONVERT.get(kind, _by_gguf_package(kind))
    blocks = data.reshape(-1, kind.block_bytes)
    values = np.empty((len(blocks), kind.block_size), np.float32)
    step = max(1, _CHUNK_VALUES // kind.block_size)
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), step):
            values[start : start + step] = convert(np.ascontiguousarray(blocks[start : start + step]))
    return values.reshape(-1)


def _by_gguf_package(kind: GgmlType) -> Callable[[Bytes], Floats]:
    def convert(blocks: Bytes) -> Floats:
        from gguf import GGMLQuantizationType, quants  # rare types only: the import takes longer than opening a model

        return quants.dequantize(blocks, GGMLQuantizationType(int(kind)))

    return convert


def _to_float(half: Bytes) -> Floats:
    return half.view("<f2").astype(np.float32)


def _nibbles(packed: Codes) -> Codes:
    """(n, b) bytes to (n, 2b) codes: all low nibbles, then all high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _bits(packed: Codes, width: int) -> Codes:
    """(n, b) bytes to (n, b * 8 // width) codes of `width` bits, least significant first."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & ((1 << width) - 1)).reshape(*packed.shape[:-1], -1)


def _q4_0(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, :2]) * (_nibbles(blocks[:, 2:]).astype(np.int8) - 8)


def _q4_1(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, :2]) * _nibbles(blocks[:, 4:]) + _to_float(blocks[:, 2:4])


def _q5_0(blocks: Bytes) -> Floats:
    codes = _nibbles(blocks[:, 6:]) | (_bits(blocks[:, 2:6], 1) << 4)
    return _to_float(blocks[:, :2]) * (codes.astype(np.int8) - 16)


def _q5_1(blocks: Bytes) -> Floats:
    codes = _nibbles(blocks[:, 8:]) | (_bits(blocks[:, 4:8], 1) << 4)
    return _to_float(blocks[:, :2]) * codes + _to_float(blocks[:, 2:4])


def _q8_0(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, :2]) * blocks[:, 2:].view(np.int8)


def _iq4_nl(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, :2]) * _IQ4[_nibbles(blocks[:, 2:])]


def _iq4_xs(blocks: Bytes) -> Floats:
    n = len(blocks)
    low = _bits(blocks[:, 4:8], 4)
    high = _bits(blocks[:, 2:4], 2)
    scales = (low | (high << 4)).astype(np.int8) - 32
    factors = _to_float(blocks[:, :2]) * scales
    codes = _nibbles(blocks[:, 8:].reshape(n, 8, 16))
    return (factors[:, :, None] * _IQ4[codes]).reshape(n, 256)


def _mxfp4(blocks: Bytes) -> Floats:
    exponent = blocks[:, :1].astype(np.uint32)
    # half of 2^(e - 127), because the codes are doubled; the two smallest are denormal
    bits = np.where(exponent < 2, np.uint32(0x00200000) << exponent, (np.maximum(exponent, 1) - 1) << 23)
    return bits.astype(np.uint32).view(np.float32) * _E2M1_DOUBLED[_nibbles(blocks[:, 1:])]


def _nvfp4(blocks: Bytes) -> Floats:
    n = len(blocks)
    raw = blocks[:, :4]
    exponent, mantissa = (raw >> 3 & 15).astype(np.int32), (raw & 7).astype(np.float32)
    scales = np.where(exponent == 0, mantissa * np.float32(2**-9), np.ldexp(1 + mantissa / 8, exponent - 7))
    scales = np.where(raw == 0x7F, 0, scales * 0.5).astype(np.float32)
    codes = _nibbles(blocks[:, 4:].reshape(n, 4, 8))
    return (scales[:, :, None] * _E2M1_DOUBLED[codes]).reshape(n, 64)


def _q1_0(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, :2]) * (2 * _bits(blocks[:, 2:], 1).astype(np.int8) - 1)


def _q2_0(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, :2]) * (_bits(blocks[:, 2:], 2).astype(np.int8) - 1)


def _trits(packed: Bytes, digits: int) -> Codes:
    """(n, b) bytes to (n, digits * b) values -1, 0, 1: the first digit of all bytes, then the second, ..."""
    shifted = packed[:, None, :] * _POWERS_OF_3[:digits, None]  # modulo 256 on purpose
    return ((shifted.astype(np.uint16) * 3 >> 8).astype(np.int8) - 1).reshape(len(packed), -1)


def _tq1_0(blocks: Bytes) -> Floats:
    values = [_trits(blocks[:, :32], 5), _trits(blocks[:, 32:48], 5), _trits(blocks[:, 48:52], 4)]
    return _to_float(blocks[:, 52:]) * np.concatenate(values, axis=1)


def ptq1_0_codes(blocks: Bytes) -> Codes:
    """-1, 0 or 1 for each value of PTQ1_0 blocks (n, 28): (n, 128) int8."""
    return np.concatenate([_trits(blocks[:, :16], 5), _trits(blocks[:, 16:24], 5), _trits(blocks[:, 24:26], 4)], axis=1)


def _ptq1_0(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, 26:]) * ptq1_0_codes(blocks)


def _planes(packed: Codes) -> Codes:
    """(n, 64) bytes of 2-bit codes to (n, 256): two halves of 32 bytes, in each the lowest bits of all bytes first."""
    halves = packed.reshape(-1, 2, 1, 32)
    return (halves >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(-1, 256)


def _tq2_0(blocks: Bytes) -> Floats:
    return _to_float(blocks[:, 64:]) * (_planes(blocks[:, :64]).astype(np.int8) - 1)


def _q2_k(blocks: Bytes) -> Floats:
    n = len(blocks)
    packed, codes = _bits(blocks[:, :16], 4).reshape(n, 16, 2), _planes(blocks[:, 16:80]).reshape(n, 16, 16)
    factors = _to_float(blocks[:, 80:82]) * packed[:, :, 0]
    minima = _to_float(blocks[:, 82:84]) * packed[:, :, 1]
    return (factors[:, :, None] * codes - minima[:, :, None]).reshape(n, 256)


def _q3_k(blocks: Bytes) -> Floats:
    n = len(blocks)
    high = blocks[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    codes = _planes(blocks[:, 32:96]).astype(np.int8) - ((high.reshape(n, 256) ^ 1) << 2).astype(np.int8)
    packed = blocks[:, 96:108]
    scale_high = (packed[:, None, 8:] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(n, 16)
    scales = (_nibbles(packed[:, :8]) | (scale_high << 4)).astype(np.int8) - 32
    factors = _to_float(blocks[:, 108:110]) * scales
    return (factors[:, :, None] * codes.reshape(n, 16, 16)).reshape(n, 256)


def _scales_and_minima(packed: Bytes) -> tuple[Codes, Codes]:
    """The 6-bit scales and minima of Q4_K and Q5_K: (n, 12) bytes to (n, 8) each."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return scales, minima


def _scaled_32(blocks: Bytes, codes: Codes) -> Floats:
    """Q4_K and Q5_K: d, dmin and the packed scales lead the block; codes (n, 8, 32)."""
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    factors = _to_float(blocks[:, :2]) * scales
    offsets = _to_float(blocks[:, 2:4]) * minima
    return (factors[:, :, None] * codes - offsets[:, :, None]).reshape(len(blocks), 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _scaled_32(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: Bytes) -> Floats:
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _scaled_32(blocks, low | (high << 4))


def _q6_k(blocks: Bytes) -> Floats:
    n = len(blocks)
    low = _nibbles(blocks[:, :128].reshape(n, 2, 64)).reshape(n, 256)
    codes = (low | (_planes(blocks[:, 128:192]) << 4)).astype(np.int8) - 32
    factors = _to_float(blocks[:, 208:]) * blocks[:, 192:208].view(np.int8)
    return (factors[:, :, None] * codes.reshape(n, 16, 16)).reshape(n, 256)


def _bf16(blocks: Bytes) -> Floats:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _plain(code: str) -> Callable[[Bytes], Floats]:
    return lambda blocks: blocks.view(code).astype(np.float32)


_LEFT_TO_GGUF = {
    GgmlType.IQ1_S,
    GgmlType.IQ1_M,
    GgmlType.IQ2_XXS,
    GgmlType.IQ2_XS,
    GgmlType.IQ2_S,
    GgmlType.IQ3_XXS,
    GgmlType.IQ3_S,
}
_CONVERT: dict[GgmlType, Callable[[Bytes], Floats]] = {
    GgmlType.F32: _plain("<f4"),
    GgmlType.F16: _plain("<f2"),
    GgmlType.BF16: _bf16,
    GgmlType.F64: _plain("<f8"),
    GgmlType.I8: _plain("i1"),
    GgmlType.I16: _plain("<i2"),
    GgmlType.I32: _plain("<i4"),
    GgmlType.I64: _plain("<i8"),
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
    GgmlType.MXFP4: _mxfp4,
    GgmlType.NVFP4: _nvfp4,
    GgmlType.Q1_0: _q1_0,
    GgmlType.Q2_0: _q2_0,
    GgmlType.TQ1_0: _tq1_0,
    GgmlType.TQ2_0: _tq2_0,
    GgmlType.PQ2_0: _q2_0,
    GgmlType.PTQ1_0: _ptq1_0,
}
