// Float vectors of AArch64's NEON; see simd.h.
#pragma once
#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "half.h"
#include "inline.h"

#define GOLEM_ISA_NAMESPACE neon

namespace golem {
namespace neon {

constexpr int kWidth = 4;
constexpr int kRegisters = 32;
using vf = float32x4_t;

GOLEM_INLINE vf fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
GOLEM_INLINE vf add_product(vf s, vf a, vf b) { return fma(a, b, s); }
GOLEM_INLINE vf smaller(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
GOLEM_INLINE vf larger(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
GOLEM_INLINE vf absolute(vf a) { return vabsq_f32(a); }
GOLEM_INLINE vf with_sign_of(vf sign, vf magnitude) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude); }
GOLEM_INLINE vf where_less(vf a, vf b, vf yes, vf no) { return vbslq_f32(vcltq_f32(a, b), yes, no); }
GOLEM_INLINE uint32_t at_least(vf a, vf b) {
  const uint32_t bit[kWidth] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(vcgeq_f32(a, b), vld1q_u32(bit)));
}
GOLEM_INLINE vf round_even(vf a) { return vrndnq_f32(a); }
GOLEM_INLINE vf power_of_two(vf n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}

GOLEM_INLINE vf set1(float x) { return vdupq_n_f32(x); }
GOLEM_INLINE vf zero() { return vdupq_n_f32(0.0f); }
GOLEM_INLINE vf load(const float *p) { return vld1q_f32(p); }
GOLEM_INLINE vf load_n(const float *p, int n) {
  float lanes[kWidth] = {0};
  memcpy(lanes, p, static_cast<size_t>(n) * 4);
  return vld1q_f32(lanes);
}
GOLEM_INLINE void store(float *p, vf a) { vst1q_f32(p, a); }
GOLEM_INLINE void store_n(float *p, vf a, int n) {
  float lanes[kWidth];
  vst1q_f32(lanes, a);
  memcpy(p, lanes, static_cast<size_t>(n) * 4);
}
GOLEM_INLINE uint16x4_t load_words_n(const uint16_t *p, int n) {
  uint16_t words[kWidth] = {0};
  memcpy(words, p, static_cast<size_t>(n) * 2);
  return vld1_u16(words);
}
GOLEM_INLINE vf half_to_vf(uint16x4_t w) { return vcvt_f32_f16(vreinterpret_f16_u16(w)); }
GOLEM_INLINE vf load_half(const uint16_t *p) { return half_to_vf(vld1_u16(p)); }
GOLEM_INLINE vf load_half_n(const uint16_t *p, int n) { return half_to_vf(load_words_n(p, n)); }
GOLEM_INLINE vf set_half(const uint16_t *p) { return half_to_vf(vdup_n_u16(*p)); }
GOLEM_INLINE vf bfloat_words(uint16x4_t w) { return vreinterpretq_f32_u32(vshll_n_u16(w, 16)); }
GOLEM_INLINE vf load_bfloat(const uint16_t *p) { return bfloat_words(vld1_u16(p)); }
GOLEM_INLINE vf load_bfloat_n(const uint16_t *p, int n) { return bfloat_words(load_words_n(p, n)); }
GOLEM_INLINE void store_half(uint16_t *p, vf a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }
GOLEM_INLINE vf round_to_half(vf a) { return vcvt_f32_f16(vcvt_f16_f32(a)); }
GOLEM_INLINE vf load_int8(const int8_t *p) {
  int32_t four;
  memcpy(&four, p, 4);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}
GOLEM_INLINE void store_int8(int8_t *p, vf a) {  // integral values in -128..127
  const int16x4_t words = vmovn_s32(vcvtq_s32_f32(a));
  const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
  const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
  memcpy(p, &four, 4);
}

GOLEM_INLINE float sum(vf a) {
  const vf pairs = vpaddq_f32(a, a);
  return vgetq_lane_f32(pairs, 0) + vgetq_lane_f32(pairs, 1);
}
GOLEM_INLINE void sum_4(const vf *a, float *out) { vst1q_f32(out, vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3]))); }
GOLEM_INLINE void transpose(vf *a) {
  const float32x4x2_t p = vtrnq_f32(a[0], a[1]), q = vtrnq_f32(a[2], a[3]);
  a[0] = vcombine_f32(vget_low_f32(p.val[0]), vget_low_f32(q.val[0]));
  a[1] = vcombine_f32(vget_low_f32(p.val[1]), vget_low_f32(q.val[1]));
  a[2] = vcombine_f32(vget_high_f32(p.val[0]), vget_high_f32(q.val[0]));
  a[3] = vcombine_f32(vget_high_f32(p.val[1]), vget_high_f32(q.val[1]));
}
GOLEM_INLINE float largest(vf a) { return vmaxvq_f32(a); }

}  // namespace neon
}  // namespace golem
