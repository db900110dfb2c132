// Float vectors in portable C++; see simd.h.
#pragma once
#include <cstdint>
#include <cstring>

#include "half.h"
#include "inline.h"

#define GOLEM_ISA_NAMESPACE generic

namespace golem {
namespace generic {

constexpr int kWidth = 8;
constexpr int kRegisters = 16;
struct vf {
  float v[kWidth];
};

template <class Fn>
GOLEM_INLINE vf each(Fn fn) {
  vf r;
  for (int i = 0; i < kWidth; i++) r.v[i] = fn(i);
  return r;
}

GOLEM_INLINE vf operator+(vf a, vf b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
GOLEM_INLINE vf operator-(vf a, vf b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
GOLEM_INLINE vf operator*(vf a, vf b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
GOLEM_INLINE vf operator/(vf a, vf b) { return each([&](int i) { return a.v[i] / b.v[i]; }); }
GOLEM_INLINE vf fma(vf a, vf b, vf c) { return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; }); }
GOLEM_INLINE vf add_product(vf s, vf a, vf b) { return fma(a, b, s); }
GOLEM_INLINE vf smaller(vf a, vf b) { return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
GOLEM_INLINE vf larger(vf a, vf b) { return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
GOLEM_INLINE vf absolute(vf a) { return each([&](int i) { return float_of(bits_of(a.v[i]) & 0x7fffffffu); }); }
GOLEM_INLINE vf with_sign_of(vf sign, vf magnitude) {
  return each([&](int i) { return float_of((bits_of(sign.v[i]) & 0x80000000u) | bits_of(magnitude.v[i])); });
}
GOLEM_INLINE vf where_less(vf a, vf b, vf yes, vf no) {
  return each([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}
GOLEM_INLINE uint32_t at_least(vf a, vf b) {
  uint32_t bits = 0;
  for (int i = 0; i < kWidth; i++) bits |= static_cast<uint32_t>(a.v[i] >= b.v[i]) << i;
  return bits;
}

// To the nearest integer, ties to even, for |a| < 2^22: the sum's last mantissa bit is worth one.
GOLEM_INLINE vf round_even(vf a) {
  return each([&](int i) { return (a.v[i] + 12582912.0f) - 12582912.0f; });
}
GOLEM_INLINE vf power_of_two(vf n) {
  return each([&](int i) { return float_of(static_cast<uint32_t>(static_cast<int32_t>(n.v[i]) + 127) << 23); });
}

GOLEM_INLINE vf set1(float x) { return each([&](int) { return x; }); }
GOLEM_INLINE vf zero() { return set1(0.0f); }

// A value of a file's, which may lie at an odd address.
template <class T>
GOLEM_INLINE T value_at(const T *p, int i) {
  T value;
  memcpy(&value, reinterpret_cast<const uint8_t *>(p) + static_cast<size_t>(i) * sizeof value, sizeof value);
  return value;
}

GOLEM_INLINE vf load(const float *p) { return each([&](int i) { return value_at(p, i); }); }
GOLEM_INLINE vf load_n(const float *p, int n) { return each([&](int i) { return i < n ? value_at(p, i) : 0.0f; }); }
GOLEM_INLINE void store(float *p, vf a) { memcpy(p, a.v, sizeof a.v); }
GOLEM_INLINE void store_n(float *p, vf a, int n) { memcpy(p, a.v, static_cast<size_t>(n) * 4); }
GOLEM_INLINE vf load_half(const uint16_t *p) { return each([&](int i) { return half_to_float(value_at(p, i)); }); }
GOLEM_INLINE vf load_half_n(const uint16_t *p, int n) { return each([&](int i) { return i < n ? half_to_float(value_at(p, i)) : 0.0f; }); }
GOLEM_INLINE vf load_bfloat(const uint16_t *p) { return each([&](int i) { return bfloat_to_float(value_at(p, i)); }); }
GOLEM_INLINE vf load_bfloat_n(const uint16_t *p, int n) {
  return each([&](int i) { return i < n ? bfloat_to_float(value_at(p, i)) : 0.0f; });
}
GOLEM_INLINE vf set_half(const uint16_t *p) { return set1(half_to_float(*p)); }
GOLEM_INLINE void store_half(uint16_t *p, vf a) {
  for (int i = 0; i < kWidth; i++) p[i] = float_to_half(a.v[i]);
}
GOLEM_INLINE vf round_to_half(vf a) { return each([&](int i) { return half_to_float(float_to_half(a.v[i])); }); }
GOLEM_INLINE vf load_int8(const int8_t *p) { return each([&](int i) { return static_cast<float>(p[i]); }); }
GOLEM_INLINE void store_int8(int8_t *p, vf a) {  // integral values in -128..127
  for (int i = 0; i < kWidth; i++) p[i] = static_cast<int8_t>(static_cast<int32_t>(a.v[i]));
}

GOLEM_INLINE float sum(vf a) {
  const float *v = a.v;
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
GOLEM_INLINE void sum_4(const vf *a, float *out) {
  for (int i = 0; i < 4; i++) out[i] = sum(a[i]);
}
GOLEM_INLINE void transpose(vf *a) {
  for (int i = 0; i < kWidth; i++)
    for (int j = i + 1; j < kWidth; j++) {
      const float x = a[i].v[j];
      a[i].v[j] = a[j].v[i];
      a[j].v[i] = x;
    }
}
GOLEM_INLINE float largest(vf a) {
  float m = a.v[0];
  for (int i = 1; i < kWidth; i++) m = a.v[i] > m ? a.v[i] : m;
  return m;
}

}  // namespace generic
}  // namespace golem
