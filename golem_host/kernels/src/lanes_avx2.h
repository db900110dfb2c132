// Integer lanes of AVX2 for product_lanes.cpp: one weight row per 32-bit lane. See lanes.h.
#pragma once
#include "simd_avx2.h"

namespace golem {
namespace avx2 {

constexpr int kLanes = 8;
constexpr int kColumns = 8;  // activation rows whose sums fit the registers
// With as many activation rows or fewer, bytes of all sizes are multiplied rather than what they hold (few_bits.h):
// dot takes unsigned bytes of seven bits at most.
constexpr int kWholeByteColumns = 0;
using vi = __m256i;

// Signed weights are multiplied as they are.
constexpr int kSignedBias = 0;

GOLEM_INLINE vi set_int(int32_t x) { return _mm256_set1_epi32(x); }
GOLEM_INLINE vi and_int(vi a, vi b) { return _mm256_and_si256(a, b); }
GOLEM_INLINE vi or_int(vi a, vi b) { return _mm256_or_si256(a, b); }
GOLEM_INLINE vi choose_bits(vi mask, vi a, vi b) { return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b)); }
GOLEM_INLINE vi xor_int(vi a, vi b) { return _mm256_xor_si256(a, b); }
GOLEM_INLINE vi add_int(vi a, vi b) { return _mm256_add_epi32(a, b); }
GOLEM_INLINE vi sub_int(vi a, vi b) { return _mm256_sub_epi32(a, b); }
GOLEM_INLINE vi mul_int(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
template <int n> GOLEM_INLINE vi shift_left(vi a) { return _mm256_slli_epi32(a, n); }
template <int n> GOLEM_INLINE vi shift_right(vi a) { return _mm256_srli_epi32(a, n); }
template <int n> GOLEM_INLINE vi shift_right_signed(vi a) { return _mm256_srai_epi32(a, n); }
GOLEM_INLINE vi max_int(vi a, vi b) { return _mm256_max_epi32(a, b); }
GOLEM_INLINE vf to_float(vi a) { return _mm256_cvtepi32_ps(a); }
GOLEM_INLINE vf as_float(vi bits) { return _mm256_castsi256_ps(bits); }

GOLEM_INLINE vi load_lanes(const uint8_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); }
GOLEM_INLINE void store_lanes(uint8_t *p, vi a) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), a); }
GOLEM_INLINE vi load_bytes(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadu_si64(p)); }
GOLEM_INLINE vi load_signed_bytes(const uint8_t *p) { return _mm256_cvtepi8_epi32(_mm_loadu_si64(p)); }

GOLEM_INLINE __m128i packed_words(vi a) {
  const vi w = _mm256_packus_epi32(a, a);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(w, 0x08));
}
GOLEM_INLINE vf half_low(vi a) { return _mm256_cvtph_ps(packed_words(_mm256_and_si256(a, _mm256_set1_epi32(0xffff)))); }
GOLEM_INLINE vf half_high(vi a) { return _mm256_cvtph_ps(packed_words(_mm256_srli_epi32(a, 16))); }

GOLEM_INLINE __m128i dwords_of_4_rows(const uint8_t *p, int64_t stride) {
  const __m128i ab = _mm_unpacklo_epi32(_mm_loadu_si32(p), _mm_loadu_si32(p + stride));
  const __m128i cd = _mm_unpacklo_epi32(_mm_loadu_si32(p + 2 * stride), _mm_loadu_si32(p + 3 * stride));
  return _mm_unpacklo_epi64(ab, cd);
}
GOLEM_INLINE vi load_dword(const uint8_t *p, int64_t stride) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(dwords_of_4_rows(p, stride)), dwords_of_4_rows(p + 4 * stride, stride), 1);
}

GOLEM_INLINE __m256i two_rows(const uint8_t *low, const uint8_t *high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(low))),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i *>(high)), 1);
}
GOLEM_INLINE void load_4_dwords(const uint8_t *p, int64_t stride, vi *out) {
  const __m256i a = two_rows(p, p + 4 * stride), b = two_rows(p + stride, p + 5 * stride);
  const __m256i c = two_rows(p + 2 * stride, p + 6 * stride), d = two_rows(p + 3 * stride, p + 7 * stride);
  const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
  const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
  out[0] = _mm256_unpacklo_epi64(ab0, cd0);
  out[1] = _mm256_unpackhi_epi64(ab0, cd0);
  out[2] = _mm256_unpacklo_epi64(ab1, cd1);
  out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

// Byte codes 0..15 to the values of a table of 16.
GOLEM_INLINE vi lane_table(const int8_t *table) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(table)));
}
GOLEM_INLINE vi table_values(vi table, vi codes) { return _mm256_shuffle_epi8(table, codes); }

// kValue in each byte whose bit of `bits` (bits kFirst .. kFirst + 3 of each lane, one per byte) is set.
template <int kFirst, int kValue>
GOLEM_INLINE vi value_where(vi bits) {
  constexpr int b = kFirst / 8;
  const vi spread = _mm256_shuffle_epi8(
      bits, _mm256_setr_epi8(b, b, b, b, 4 + b, 4 + b, 4 + b, 4 + b, 8 + b, 8 + b, 8 + b, 8 + b, 12 + b, 12 + b, 12 + b, 12 + b,
                             b, b, b, b, 4 + b, 4 + b, 4 + b, 4 + b, 8 + b, 8 + b, 8 + b, 8 + b, 12 + b, 12 + b, 12 + b, 12 + b));
  const vi mask = _mm256_set1_epi32(kFirst % 8 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010u));
  const vi set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask);
  return _mm256_and_si256(set, _mm256_set1_epi8(kValue));
}

// Byte kByte of each lane as its four two-bit codes, the lowest first.
template <int kByte>
GOLEM_INLINE vi two_bit_codes(vi a) {
  constexpr char none = -1;
  const vi twice = _mm256_shuffle_epi8(
      a, _mm256_setr_epi8(none, kByte, none, kByte, none, 4 + kByte, none, 4 + kByte, none, 8 + kByte, none, 8 + kByte, none,
                          12 + kByte, none, 12 + kByte, none, kByte, none, kByte, none, 4 + kByte, none, 4 + kByte, none,
                          8 + kByte, none, 8 + kByte, none, 12 + kByte, none, 12 + kByte));
  // a nibble of each word, once to bit 0 and once to bit 6
  const vi nibbles = _mm256_and_si256(twice, _mm256_set1_epi32(static_cast<int32_t>(0xf0000f00u)));
  return _mm256_and_si256(_mm256_mulhi_epu16(nibbles, _mm256_set1_epi32(0x04104100)), _mm256_set1_epi32(0x03030303));
}

// Bytes that hold a fraction of 256 in base 3: its first digit, floor(3 a / 256), and the rest of its digits.
GOLEM_INLINE vi first_trit(vi a) {
  const vi less = _mm256_subs_epu8(a, _mm256_set1_epi8(1));  // so that averages round down
  const vi high = _mm256_avg_epu8(less, _mm256_avg_epu8(less, _mm256_setzero_si256()));
  return _mm256_and_si256(_mm256_srli_epi16(high, 6), _mm256_set1_epi8(3));
}
GOLEM_INLINE vi times_three(vi a) { return _mm256_add_epi8(a, _mm256_add_epi8(a, a)); }

GOLEM_INLINE vi four(const int8_t *a) {
  int32_t w;
  memcpy(&w, a, 4);
  return _mm256_set1_epi32(w);
}

// How a scale enters dot: multiplied to pairs of products.
GOLEM_INLINE vi dot_scale(vi s) {
  return _mm256_or_si256(_mm256_and_si256(s, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(s, 16));
}

// scale * sum over N vectors of w[i] . a[4i .. 4i+3]. kBits: weights are unsigned of that many bits, or 8: signed.
// Pairs of products are summed in 16 bits for as long as they cannot overflow.
template <int kBits, int N>
GOLEM_INLINE vi dot_scaled(const vi *w, const int8_t *a, vi scale) {
  constexpr int kGroup = kBits <= 4 ? 8 : kBits == 5 ? 4 : kBits == 6 ? 2 : 1;
  vi total = _mm256_setzero_si256();
  for (int i = 0; i < N; i += kGroup) {
    vi pairs = _mm256_setzero_si256();
    for (int j = i; j < i + kGroup && j < N; j++) {
      const vi x = four(a + 4 * j);
      const vi y = kBits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[j]), _mm256_sign_epi8(x, w[j])) : _mm256_maddubs_epi16(w[j], x);
      pairs = j == i ? y : _mm256_add_epi16(pairs, y);
    }
    const vi s = _mm256_madd_epi16(pairs, scale);
    total = i == 0 ? s : _mm256_add_epi32(total, s);
  }
  return total;
}
template <int kBits, int N>
GOLEM_INLINE vi dot(const vi *w, const int8_t *a) {
  return dot_scaled<kBits, N>(w, a, _mm256_set1_epi16(1));
}

// Two int16 per lane, (low, high).
GOLEM_INLINE vi pair(vi low, vi high) {
  return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(high, 16));
}
// total + pairs . (x[0], x[1])
GOLEM_INLINE vi dot_pairs(vi total, vi pairs, const int16_t *x) {
  int32_t w;
  memcpy(&w, x, 4);
  return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi32(w)));
}

}  // namespace avx2
}  // namespace golem
