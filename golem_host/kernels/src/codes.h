// Sums of products of int8 codes: four of a lane's own with four that all lanes share. They are exact.
//   load_codes(p): of kWidth lanes, four after four   dot_start(s): where the sums begin when the shared codes sum to s
//   dot_four(sums, codes, four): adds the next four   whole(sums): the sums as float
#pragma once
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace golem {
namespace GOLEM_ISA_NAMESPACE {

#if defined(GOLEM_ISA_AVX512)

using vsums = __m512i;
using vcodes = __m512i;
// vpdpbusd wants unsigned codes: they are taken plus 128, and 128 times the sum of the shared ones is taken off at the start.
GOLEM_INLINE vcodes load_codes(const int8_t *p) { return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128)); }
GOLEM_INLINE vsums dot_start(int32_t sum) { return _mm512_set1_epi32(-128 * sum); }
GOLEM_INLINE vsums dot_four(vsums sums, vcodes codes, int32_t four) { return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(four)); }
GOLEM_INLINE vf whole(vsums sums) { return _mm512_cvtepi32_ps(sums); }

#elif defined(GOLEM_ISA_AVX2)

using vsums = __m256i;
using vcodes = __m256i;
GOLEM_INLINE vcodes load_codes(const int8_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); }
GOLEM_INLINE vsums dot_start(int32_t) { return _mm256_setzero_si256(); }
GOLEM_INLINE vsums dot_four(vsums sums, vcodes codes, int32_t four) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(_mm256_set1_epi32(four), codes));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
GOLEM_INLINE vf whole(vsums sums) { return _mm256_cvtepi32_ps(sums); }

#elif defined(GOLEM_ISA_NEON)

using vsums = int32x4_t;
using vcodes = int8x16_t;
GOLEM_INLINE vcodes load_codes(const int8_t *p) { return vld1q_s8(p); }
GOLEM_INLINE vsums dot_start(int32_t) { return vdupq_n_s32(0); }
GOLEM_INLINE vsums dot_four(vsums sums, vcodes codes, int32_t four) {
  return vdotq_s32(sums, codes, vreinterpretq_s8_s32(vdupq_n_s32(four)));
}
GOLEM_INLINE vf whole(vsums sums) { return vcvtq_f32_s32(sums); }

#else

struct vsums {
  int32_t v[kWidth];
};
struct vcodes {
  int8_t v[4 * kWidth];
};
GOLEM_INLINE vcodes load_codes(const int8_t *p) {
  vcodes codes;
  memcpy(codes.v, p, sizeof codes.v);
  return codes;
}
GOLEM_INLINE vsums dot_start(int32_t) { return {}; }
GOLEM_INLINE vsums dot_four(vsums sums, vcodes codes, int32_t four) {
  int8_t shared[4];
  memcpy(shared, &four, 4);
  for (int i = 0; i < kWidth; i++)
    for (int j = 0; j < 4; j++) sums.v[i] += codes.v[4 * i + j] * shared[j];
  return sums;
}
GOLEM_INLINE vf whole(vsums sums) {
  vf r;
  for (int i = 0; i < kWidth; i++) r.v[i] = static_cast<float>(sums.v[i]);
  return r;
}

#endif

}  // namespace GOLEM_ISA_NAMESPACE
}  // namespace golem
