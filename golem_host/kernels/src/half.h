// Scalar conversions between float32, IEEE half and bfloat16 (round to nearest even).
#pragma once
#include <cstdint>
#include <cstring>

namespace golem {

static inline uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 31) return float_of(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return float_of(sign | bits_of(magnitude));
  }
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t float_to_half(float x) {
  const uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (a >> 13 & 1023u));
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (a < 0x38800000u) {  // half subnormal: adding 0.5 aligns the mantissa and rounds
    const uint32_t m = bits_of(float_of(a) + 0.5f) - bits_of(0.5f);
    return static_cast<uint16_t>(sign | m);
  }
  return static_cast<uint16_t>(sign | ((a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13));
}

static inline float bfloat_to_float(uint16_t b) { return float_of(static_cast<uint32_t>(b) << 16); }

static inline float round_to_bfloat(float x) {
  const uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return float_of((u & 0xffff0000u) | 0x400000u);
  return float_of((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}

static inline uint16_t load_u16(const uint8_t *p) {
  uint16_t u;
  memcpy(&u, p, 2);
  return u;
}

static inline uint32_t load_u32(const uint8_t *p) {
  uint32_t u;
  memcpy(&u, p, 4);
  return u;
}

static inline float load_half(const uint8_t *p) { return half_to_float(load_u16(p)); }

}  // namespace golem
