// Integer lanes of NEON with the dot product instructions, for product_lanes.cpp: one weight row per 32-bit lane. See lanes.h.
#pragma once
#include "simd_neon.h"

namespace golem {
namespace neon {

constexpr int kLanes = 4;
constexpr int kColumns = 8;  // activation rows whose sums fit the registers
// With as many activation rows or fewer, bytes of all sizes are multiplied rather than what they hold (few_bits.h):
// dot takes unsigned bytes of seven bits at most.
constexpr int kWholeByteColumns = 0;
using vi = int32x4_t;

// Signed weights are multiplied as they are; unsigned ones have at most 7 bits and so are signed ones too.
constexpr int kSignedBias = 0;

GOLEM_INLINE vi set_int(int32_t x) { return vdupq_n_s32(x); }
GOLEM_INLINE vi and_int(vi a, vi b) { return vandq_s32(a, b); }
GOLEM_INLINE vi or_int(vi a, vi b) { return vorrq_s32(a, b); }
GOLEM_INLINE vi choose_bits(vi mask, vi a, vi b) { return vbslq_s32(vreinterpretq_u32_s32(mask), a, b); }
GOLEM_INLINE vi xor_int(vi a, vi b) { return veorq_s32(a, b); }
GOLEM_INLINE vi add_int(vi a, vi b) { return vaddq_s32(a, b); }
GOLEM_INLINE vi sub_int(vi a, vi b) { return vsubq_s32(a, b); }
GOLEM_INLINE vi mul_int(vi a, vi b) { return vmulq_s32(a, b); }
// Shifts by 0 included, which the immediate of a right shift cannot say.
template <int n> GOLEM_INLINE vi shift_left(vi a) { return vshlq_n_s32(a, n); }
template <int n> GOLEM_INLINE vi shift_right(vi a) {
  if constexpr (n == 0) return a;
  else return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n));
}
template <int n> GOLEM_INLINE vi shift_right_signed(vi a) {
  if constexpr (n == 0) return a;
  else return vshrq_n_s32(a, n);
}
GOLEM_INLINE vi max_int(vi a, vi b) { return vmaxq_s32(a, b); }
GOLEM_INLINE vf as_float(vi bits) { return vreinterpretq_f32_s32(bits); }
GOLEM_INLINE vf to_float(vi a) { return vcvtq_f32_s32(a); }

GOLEM_INLINE vi load_lanes(const uint8_t *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
GOLEM_INLINE void store_lanes(uint8_t *p, vi a) { vst1q_u8(p, vreinterpretq_u8_s32(a)); }
GOLEM_INLINE vi load_bytes(const uint8_t *p) {
  const uint16x8_t words = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(load_u32(p))));
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(words)));
}
GOLEM_INLINE vi load_signed_bytes(const uint8_t *p) {
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(load_u32(p))))));
}

GOLEM_INLINE vf half_low(vi a) { return half_to_vf(vmovn_u32(vreinterpretq_u32_s32(a))); }
GOLEM_INLINE vf half_high(vi a) { return half_to_vf(vshrn_n_u32(vreinterpretq_u32_s32(a), 16)); }

GOLEM_INLINE vi load_dword(const uint8_t *p, int64_t stride) {
  const uint32_t rows[kLanes] = {load_u32(p), load_u32(p + stride), load_u32(p + 2 * stride), load_u32(p + 3 * stride)};
  return vreinterpretq_s32_u32(vld1q_u32(rows));
}

GOLEM_INLINE vi low_pairs(vi a, vi b) {  // the low two lanes of both
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
GOLEM_INLINE vi high_pairs(vi a, vi b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
GOLEM_INLINE void load_4_dwords(const uint8_t *p, int64_t stride, vi *out) {
  const vi a = load_lanes(p), b = load_lanes(p + stride), c = load_lanes(p + 2 * stride), d = load_lanes(p + 3 * stride);
  const vi ab0 = vzip1q_s32(a, b), ab1 = vzip2q_s32(a, b), cd0 = vzip1q_s32(c, d), cd1 = vzip2q_s32(c, d);
  out[0] = low_pairs(ab0, cd0);
  out[1] = high_pairs(ab0, cd0);
  out[2] = low_pairs(ab1, cd1);
  out[3] = high_pairs(ab1, cd1);
}

// Byte codes 0..15 to the values of a table of 16.
GOLEM_INLINE vi lane_table(const int8_t *table) { return vreinterpretq_s32_s8(vld1q_s8(table)); }
GOLEM_INLINE vi table_values(vi table, vi codes) {
  return vreinterpretq_s32_s8(vqtbl1q_s8(vreinterpretq_s8_s32(table), vreinterpretq_u8_s32(codes)));
}

// kValue in each byte whose bit of `bits` (bits kFirst .. kFirst + 3 of each lane, one per byte) is set.
template <int kFirst, int kValue>
GOLEM_INLINE vi value_where(vi bits) {
  constexpr uint32_t b = kFirst / 8 * 0x01010101u;
  const uint32_t byte[kLanes] = {b, b + 0x04040404u, b + 0x08080808u, b + 0x0c0c0c0cu};
  const uint8x16_t spread = vqtbl1q_u8(vreinterpretq_u8_s32(bits), vreinterpretq_u8_u32(vld1q_u32(byte)));
  const uint8x16_t mask = vreinterpretq_u8_u32(vdupq_n_u32(kFirst % 8 == 0 ? 0x08040201u : 0x80402010u));
  return vreinterpretq_s32_u8(vandq_u8(vtstq_u8(spread, mask), vdupq_n_u8(kValue)));
}

// Byte kByte of each lane as its four two-bit codes, the lowest first.
template <int kByte>
GOLEM_INLINE vi two_bit_codes(vi a) {
  constexpr uint32_t b = kByte * 0x01010101u;
  const uint32_t byte[kLanes] = {b, b + 0x04040404u, b + 0x08080808u, b + 0x0c0c0c0cu};
  const uint8x16_t spread = vqtbl1q_u8(vreinterpretq_u8_s32(a), vreinterpretq_u8_u32(vld1q_u32(byte)));
  const int8x16_t places = vreinterpretq_s8_u32(vdupq_n_u32(0xfafcfe00u));  // 0, -2, -4, -6: to the right
  return vreinterpretq_s32_u8(vandq_u8(vshlq_u8(spread, places), vdupq_n_u8(3)));
}

// Bytes that hold a fraction of 256 in base 3: its first digit, floor(3 a / 256), and the rest of its digits.
GOLEM_INLINE vi first_trit(vi a) {
  const uint8x16_t bytes = vreinterpretq_u8_s32(a);
  const uint8x16_t one = vshrq_n_u8(vcgeq_u8(bytes, vdupq_n_u8(86)), 7);
  return vreinterpretq_s32_u8(vsraq_n_u8(one, vcgeq_u8(bytes, vdupq_n_u8(171)), 7));
}
GOLEM_INLINE vi times_three(vi a) { return vreinterpretq_s32_u8(vmulq_u8(vreinterpretq_u8_s32(a), vdupq_n_u8(3))); }

// Sum over N vectors of w[i] . a[4i .. 4i+3]; all bytes are signed, whatever kBits says.
template <int kBits, int N>
GOLEM_INLINE vi dot(const vi *w, const int8_t *a) {
  vi total = vdupq_n_s32(0);
  for (int i = 0; i < N; i += 4) {
    const int8x16_t x = vld1q_s8(a + 4 * i);
    total = vdotq_laneq_s32(total, vreinterpretq_s8_s32(w[i]), x, 0);
    total = vdotq_laneq_s32(total, vreinterpretq_s8_s32(w[i + 1]), x, 1);
    total = vdotq_laneq_s32(total, vreinterpretq_s8_s32(w[i + 2]), x, 2);
    total = vdotq_laneq_s32(total, vreinterpretq_s8_s32(w[i + 3]), x, 3);
  }
  return total;
}

// How a scale enters dot_scaled.
GOLEM_INLINE vi dot_scale(vi s) { return s; }
template <int kBits, int N>
GOLEM_INLINE vi dot_scaled(const vi *w, const int8_t *a, vi scale) {
  return vmulq_s32(dot<kBits, N>(w, a), scale);
}

// Two int16 per lane: the low ones in the low half of the vector, the high ones in the high half.
GOLEM_INLINE vi pair(vi low, vi high) {
  return vreinterpretq_s32_s16(vuzp1q_s16(vreinterpretq_s16_s32(low), vreinterpretq_s16_s32(high)));
}
// total + pairs . (x[0], x[1])
GOLEM_INLINE vi dot_pairs(vi total, vi pairs, const int16_t *x) {
  const int16x8_t p = vreinterpretq_s16_s32(pairs);
  return vmlal_n_s16(vmlal_n_s16(total, vget_low_s16(p), x[0]), vget_high_s16(p), x[1]);
}

}  // namespace neon
}  // namespace golem
