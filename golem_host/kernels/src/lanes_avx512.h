// Integer lanes of AVX-512 VNNI for product_lanes.cpp: one weight row per 32-bit lane. See lanes.h.
#pragma once
#include "simd_avx512.h"

namespace golem {
namespace avx512 {

constexpr int kLanes = 16;
constexpr int kColumns = 8;  // activation rows whose sums fit the registers
// With as many activation rows or fewer, bytes of all sizes are multiplied rather than what they hold (few_bits.h):
// dot takes any unsigned bytes.
constexpr int kWholeByteColumns = 2;
using vi = __m512i;

// vpdpbusd wants unsigned weights: signed ones are taken plus 128, and 128 times the sum of the activations is subtracted.
constexpr int kSignedBias = 128;

GOLEM_INLINE vi set_int(int32_t x) { return _mm512_set1_epi32(x); }
GOLEM_INLINE vi and_int(vi a, vi b) { return _mm512_and_si512(a, b); }
GOLEM_INLINE vi or_int(vi a, vi b) { return _mm512_or_si512(a, b); }
GOLEM_INLINE vi choose_bits(vi mask, vi a, vi b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }
GOLEM_INLINE vi xor_int(vi a, vi b) { return _mm512_xor_si512(a, b); }
GOLEM_INLINE vi add_int(vi a, vi b) { return _mm512_add_epi32(a, b); }
GOLEM_INLINE vi sub_int(vi a, vi b) { return _mm512_sub_epi32(a, b); }
GOLEM_INLINE vi mul_int(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
template <int n> GOLEM_INLINE vi shift_left(vi a) { return _mm512_slli_epi32(a, n); }
template <int n> GOLEM_INLINE vi shift_right(vi a) { return _mm512_srli_epi32(a, n); }
template <int n> GOLEM_INLINE vi shift_right_signed(vi a) { return _mm512_srai_epi32(a, n); }
GOLEM_INLINE vi max_int(vi a, vi b) { return _mm512_max_epi32(a, b); }
GOLEM_INLINE vf to_float(vi a) { return _mm512_cvtepi32_ps(a); }
GOLEM_INLINE vf as_float(vi bits) { return _mm512_castsi512_ps(bits); }

GOLEM_INLINE vi load_lanes(const uint8_t *p) { return _mm512_loadu_si512(p); }
GOLEM_INLINE void store_lanes(uint8_t *p, vi a) { _mm512_storeu_si512(p, a); }
GOLEM_INLINE vi load_bytes(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))); }
GOLEM_INLINE vi load_signed_bytes(const uint8_t *p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}

GOLEM_INLINE vf half_low(vi a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
GOLEM_INLINE vf half_high(vi a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(a, 16))); }

GOLEM_INLINE __m128i load_128(const uint8_t *p) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p)); }
GOLEM_INLINE __m128i dwords_of_4_rows(const uint8_t *p, int64_t stride) {
  const __m128i ab = _mm_unpacklo_epi32(_mm_loadu_si32(p), _mm_loadu_si32(p + stride));
  const __m128i cd = _mm_unpacklo_epi32(_mm_loadu_si32(p + 2 * stride), _mm_loadu_si32(p + 3 * stride));
  return _mm_unpacklo_epi64(ab, cd);
}
GOLEM_INLINE __m512i join(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m256i ab = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
  const __m256i cd = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(ab), cd, 1);
}
GOLEM_INLINE vi load_dword(const uint8_t *p, int64_t stride) {
  return join(dwords_of_4_rows(p, stride), dwords_of_4_rows(p + 4 * stride, stride), dwords_of_4_rows(p + 8 * stride, stride),
              dwords_of_4_rows(p + 12 * stride, stride));
}
GOLEM_INLINE __m512i every_4th_row(const uint8_t *p, int64_t stride) {
  return join(load_128(p), load_128(p + 4 * stride), load_128(p + 8 * stride), load_128(p + 12 * stride));
}
GOLEM_INLINE void load_4_dwords(const uint8_t *p, int64_t stride, vi *out) {
  const __m512i a = every_4th_row(p, stride), b = every_4th_row(p + stride, stride);
  const __m512i c = every_4th_row(p + 2 * stride, stride), d = every_4th_row(p + 3 * stride, stride);
  const __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
  const __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
  out[0] = _mm512_unpacklo_epi64(ab0, cd0);
  out[1] = _mm512_unpackhi_epi64(ab0, cd0);
  out[2] = _mm512_unpacklo_epi64(ab1, cd1);
  out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

// Byte codes 0..15 to the values of a table of 16.
GOLEM_INLINE vi lane_table(const int8_t *table) {
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i *>(table)));
}
GOLEM_INLINE vi table_values(vi table, vi codes) { return _mm512_shuffle_epi8(table, codes); }

// kValue in each byte whose bit of `bits` (bits kFirst .. kFirst + 3 of each lane, one per byte) is set.
template <int kFirst, int kValue>
GOLEM_INLINE vi value_where(vi bits) {
  constexpr int b = kFirst / 8 * 0x01010101;
  const vi spread = _mm512_shuffle_epi8(bits, _mm512_broadcast_i32x4(_mm_setr_epi32(b, b + 0x04040404, b + 0x08080808, b + 0x0c0c0c0c)));
  const vi mask = _mm512_set1_epi32(kFirst % 8 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010u));
  return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(spread, mask), kValue);
}

// Byte kByte of each lane as its four two-bit codes, the lowest first.
template <int kByte>
GOLEM_INLINE vi two_bit_codes(vi a) {
  constexpr int b = static_cast<int>(0x00800080u | kByte << 8 | kByte << 24);
  const vi twice = _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(_mm_setr_epi32(b, b + 0x04000400, b + 0x08000800, b + 0x0c000c00)));
  // a nibble of each word, once to bit 0 and once to bit 6
  const vi nibbles = _mm512_and_si512(twice, _mm512_set1_epi32(static_cast<int32_t>(0xf0000f00u)));
  return _mm512_and_si512(_mm512_mulhi_epu16(nibbles, _mm512_set1_epi32(0x04104100)), _mm512_set1_epi32(0x03030303));
}

// Bytes that hold a fraction of 256 in base 3: its first digit, floor(3 a / 256), and the rest of its digits.
GOLEM_INLINE vi first_trit(vi a) {
  const vi less = _mm512_subs_epu8(a, _mm512_set1_epi8(1));  // so that averages round down
  const vi high = _mm512_avg_epu8(less, _mm512_avg_epu8(less, _mm512_setzero_si512()));
  return _mm512_and_si512(_mm512_srli_epi16(high, 6), _mm512_set1_epi8(3));
}
GOLEM_INLINE vi times_three(vi a) { return _mm512_add_epi8(a, _mm512_add_epi8(a, a)); }

GOLEM_INLINE vi four(const int8_t *a) { return _mm512_broadcastd_epi32(_mm_loadu_si32(a)); }

// Sum over N vectors of w[i] . a[4i .. 4i+3]; weights are unsigned whatever kBits says.
template <int kBits, int N>
GOLEM_INLINE vi dot(const vi *w, const int8_t *a) {
  vi total = _mm512_setzero_si512();
  for (int i = 0; i < N; i++) total = _mm512_dpbusd_epi32(total, w[i], four(a + 4 * i));
  return total;
}

// How a scale enters dot_scaled.
GOLEM_INLINE vi dot_scale(vi s) { return s; }
template <int kBits, int N>
GOLEM_INLINE vi dot_scaled(const vi *w, const int8_t *a, vi scale) {
  return _mm512_mullo_epi32(dot<kBits, N>(w, a), scale);
}

// Two int16 per lane, (low, high).
GOLEM_INLINE vi pair(vi low, vi high) {
  return _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(high, 16));
}
// total + pairs . (x[0], x[1])
GOLEM_INLINE vi dot_pairs(vi total, vi pairs, const int16_t *x) {
  return _mm512_dpwssd_epi32(total, pairs, _mm512_broadcastd_epi32(_mm_loadu_si32(x)));
}

}  // namespace avx512
}  // namespace golem
