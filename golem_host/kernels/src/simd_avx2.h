// Float vectors of AVX2, FMA and F16C; see simd.h.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "half.h"
#include "inline.h"

#define GOLEM_ISA_NAMESPACE avx2

namespace golem {
namespace avx2 {

constexpr int kWidth = 8;
constexpr int kRegisters = 16;
using vf = __m256;

GOLEM_INLINE vf fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
GOLEM_INLINE vf add_product(vf s, vf a, vf b) {
#if defined(__GNUC__)
  // GCC takes the form that overwrites a or b too, copies, and where sums fill the registers passes them through memory.
  asm("vfmadd231ps %2, %1, %0" : "+x"(s) : "x"(a), "x"(b));
  return s;
#else
  return fma(a, b, s);
#endif
}
GOLEM_INLINE vf smaller(vf a, vf b) { return _mm256_min_ps(a, b); }
GOLEM_INLINE vf larger(vf a, vf b) { return _mm256_max_ps(a, b); }
GOLEM_INLINE vf absolute(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
GOLEM_INLINE vf with_sign_of(vf sign, vf magnitude) {
  return _mm256_or_ps(_mm256_and_ps(sign, _mm256_set1_ps(-0.0f)), magnitude);
}
GOLEM_INLINE vf where_less(vf a, vf b, vf yes, vf no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
GOLEM_INLINE uint32_t at_least(vf a, vf b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
}
GOLEM_INLINE vf round_even(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GOLEM_INLINE vf power_of_two(vf n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}

GOLEM_INLINE vf set1(float x) { return _mm256_set1_ps(x); }
GOLEM_INLINE vf zero() { return _mm256_setzero_ps(); }
GOLEM_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
GOLEM_INLINE vf load(const float *p) { return _mm256_loadu_ps(p); }
GOLEM_INLINE vf load_n(const float *p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
GOLEM_INLINE void store(float *p, vf a) { _mm256_storeu_ps(p, a); }
GOLEM_INLINE void store_n(float *p, vf a, int n) { _mm256_maskstore_ps(p, first_lanes(n), a); }
GOLEM_INLINE __m128i load_words_n(const uint16_t *p, int n) {
  alignas(16) uint16_t words[8] = {0};
  memcpy(words, p, static_cast<size_t>(n) * 2);
  return _mm_load_si128(reinterpret_cast<const __m128i *>(words));
}
GOLEM_INLINE vf load_half(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))); }
GOLEM_INLINE vf load_half_n(const uint16_t *p, int n) { return _mm256_cvtph_ps(load_words_n(p, n)); }
GOLEM_INLINE vf set_half(const uint16_t *p) { return _mm256_set1_ps(_cvtsh_ss(*p)); }
GOLEM_INLINE vf bfloat_words(__m128i w) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(w), 16)); }
GOLEM_INLINE vf load_bfloat(const uint16_t *p) { return bfloat_words(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))); }
GOLEM_INLINE vf load_bfloat_n(const uint16_t *p, int n) { return bfloat_words(load_words_n(p, n)); }
GOLEM_INLINE __m128i half_words(vf a) { return _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT); }
GOLEM_INLINE void store_half(uint16_t *p, vf a) { _mm_storeu_si128(reinterpret_cast<__m128i *>(p), half_words(a)); }
GOLEM_INLINE vf round_to_half(vf a) { return _mm256_cvtph_ps(half_words(a)); }
GOLEM_INLINE vf load_int8(const int8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
}
GOLEM_INLINE void store_int8(int8_t *p, vf a) {  // integral values in -128..127
  const __m256i i = _mm256_cvtps_epi32(a);
  const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i *>(p), _mm_packs_epi16(w, w));
}

GOLEM_INLINE float sum(vf a) {
  const __m128 h = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 q = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
GOLEM_INLINE __m256 sum_halves(vf a, vf b) {  // of a to the low, of b to the high half
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
GOLEM_INLINE void sum_4(const vf *a, float *out) {
  const __m256 ab = sum_halves(a[0], a[1]), cd = sum_halves(a[2], a[3]);
  const __m256 pairs = _mm256_add_ps(_mm256_unpacklo_ps(ab, cd), _mm256_unpackhi_ps(ab, cd));
  const __m256 sums = _mm256_add_ps(pairs, _mm256_permute_ps(pairs, 0x4e));
  _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}
GOLEM_INLINE void transpose(vf *a) {
  __m256 b[8];
  for (int i = 0; i < 8; i += 4) {  // four rows: 4 x 4 in each half
    const __m256 p = _mm256_unpacklo_ps(a[i], a[i + 1]), q = _mm256_unpackhi_ps(a[i], a[i + 1]);
    const __m256 r = _mm256_unpacklo_ps(a[i + 2], a[i + 3]), s = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
    b[i] = _mm256_shuffle_ps(p, r, 0x44);
    b[i + 1] = _mm256_shuffle_ps(p, r, 0xee);
    b[i + 2] = _mm256_shuffle_ps(q, s, 0x44);
    b[i + 3] = _mm256_shuffle_ps(q, s, 0xee);
  }
  for (int i = 0; i < 4; i++) {  // then the halves
    a[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    a[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}
GOLEM_INLINE float largest(vf a) {
  const __m128 h = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 q = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

}  // namespace avx2
}  // namespace golem
