// Float vectors of AVX-512 (F, BW, DQ, VL), for files with AVX512-BF16 in a namespace of their own; see simd.h.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "half.h"
#include "inline.h"

#if defined(GOLEM_ISA_BF16)
#define GOLEM_ISA_NAMESPACE avx512_bf16
#else
#define GOLEM_ISA_NAMESPACE avx512
#endif

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

constexpr int kWidth = 16;
constexpr int kRegisters = 32;
using vf = __m512;

GOLEM_INLINE vf fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
GOLEM_INLINE vf add_product(vf s, vf a, vf b) { return fma(a, b, s); }
GOLEM_INLINE vf smaller(vf a, vf b) { return _mm512_min_ps(a, b); }
GOLEM_INLINE vf larger(vf a, vf b) { return _mm512_max_ps(a, b); }
GOLEM_INLINE vf absolute(vf a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
GOLEM_INLINE vf with_sign_of(vf sign, vf magnitude) {
  return _mm512_or_ps(_mm512_and_ps(sign, _mm512_set1_ps(-0.0f)), magnitude);
}
GOLEM_INLINE vf where_less(vf a, vf b, vf yes, vf no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
GOLEM_INLINE uint32_t at_least(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
GOLEM_INLINE vf round_even(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GOLEM_INLINE vf power_of_two(vf n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}

GOLEM_INLINE vf set1(float x) { return _mm512_set1_ps(x); }
GOLEM_INLINE vf zero() { return _mm512_setzero_ps(); }
GOLEM_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
GOLEM_INLINE vf load(const float *p) { return _mm512_loadu_ps(p); }
GOLEM_INLINE vf load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
GOLEM_INLINE void store(float *p, vf a) { _mm512_storeu_ps(p, a); }
GOLEM_INLINE void store_n(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a); }
GOLEM_INLINE __m256i load_words(const uint16_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); }
GOLEM_INLINE __m256i load_words_n(const uint16_t *p, int n) { return _mm256_maskz_loadu_epi16(first_lanes(n), p); }
GOLEM_INLINE vf load_half(const uint16_t *p) { return _mm512_cvtph_ps(load_words(p)); }
GOLEM_INLINE vf load_half_n(const uint16_t *p, int n) { return _mm512_cvtph_ps(load_words_n(p, n)); }
GOLEM_INLINE vf set_half(const uint16_t *p) { return _mm512_set1_ps(_cvtsh_ss(*p)); }
GOLEM_INLINE vf bfloat_words(__m256i w) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(w), 16)); }
GOLEM_INLINE vf load_bfloat(const uint16_t *p) { return bfloat_words(load_words(p)); }
GOLEM_INLINE vf load_bfloat_n(const uint16_t *p, int n) { return bfloat_words(load_words_n(p, n)); }
GOLEM_INLINE __m256i half_words(vf a) { return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT); }
GOLEM_INLINE void store_half(uint16_t *p, vf a) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), half_words(a)); }
GOLEM_INLINE vf round_to_half(vf a) { return _mm512_cvtph_ps(half_words(a)); }
GOLEM_INLINE vf load_int8(const int8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
}
GOLEM_INLINE void store_int8(int8_t *p, vf a) {  // integral values in -128..127
  _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}

GOLEM_INLINE float sum(vf a) {
  const __m256 o = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 h = _mm_add_ps(_mm256_castps256_ps128(o), _mm256_extractf128_ps(o, 1));
  const __m128 q = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
GOLEM_INLINE __m512 sum_halves(vf a, vf b) {  // of a to the low, of b to the high half
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
GOLEM_INLINE void sum_4(const vf *a, float *out) {
  const __m512 ab = sum_halves(a[0], a[1]), cd = sum_halves(a[2], a[3]);
  const __m512 quarters = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 pairs = _mm512_add_ps(quarters, _mm512_permute_ps(quarters, 0x4e));
  const __m512 sums = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0xb1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12), sums)));
}
GOLEM_INLINE void transpose(vf *a) {
  __m512 b[16];
  for (int i = 0; i < 16; i += 4) {  // four rows: 4 x 4 in each quarter
    const __m512 p = _mm512_unpacklo_ps(a[i], a[i + 1]), q = _mm512_unpackhi_ps(a[i], a[i + 1]);
    const __m512 r = _mm512_unpacklo_ps(a[i + 2], a[i + 3]), s = _mm512_unpackhi_ps(a[i + 2], a[i + 3]);
    b[i] = _mm512_shuffle_ps(p, r, 0x44);
    b[i + 1] = _mm512_shuffle_ps(p, r, 0xee);
    b[i + 2] = _mm512_shuffle_ps(q, s, 0x44);
    b[i + 3] = _mm512_shuffle_ps(q, s, 0xee);
  }
  for (int i = 0; i < 4; i++) {  // then the quarters
    const __m512 p = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88), q = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
    const __m512 r = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88), s = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
    a[i] = _mm512_shuffle_f32x4(p, r, 0x88);
    a[i + 4] = _mm512_shuffle_f32x4(q, s, 0x88);
    a[i + 8] = _mm512_shuffle_f32x4(p, r, 0xdd);
    a[i + 12] = _mm512_shuffle_f32x4(q, s, 0xdd);
  }
}
GOLEM_INLINE float largest(vf a) {
  const __m256 o = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 h = _mm_max_ps(_mm256_castps256_ps128(o), _mm256_extractf128_ps(o, 1));
  const __m128 q = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
