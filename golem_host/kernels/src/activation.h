// Layout of one quantized activation row. ggml's values, in arrays of their own instead of ggml's blocks:
//   Q8_0  int8 q[n], float d[n/32] (rounded to half), int32 sum[n/32] (of q)
//   Q8_1  int8 q[n], float d[n/32] (rounded to half), float s[n/32] (d * sum of q, rounded to half)
//   Q8_K  int8 q[n], float d[n/256], int16 sum16[n/16], int16 sum32[n/32] (of q)
//   F16, BF16  float[n], each rounded to that type
#pragma once
#include <cstdint>

namespace golem {

struct ActView {
  const uint8_t *row;
  int64_t n;

  const int8_t *q() const { return reinterpret_cast<const int8_t *>(row); }
  const float *d() const { return reinterpret_cast<const float *>(row + n); }
  const int32_t *sum() const { return reinterpret_cast<const int32_t *>(row + n + n / 32 * 4); }   // Q8_0
  const float *s() const { return reinterpret_cast<const float *>(row + n + n / 32 * 4); }         // Q8_1
  const int16_t *sum16() const { return reinterpret_cast<const int16_t *>(row + n + n / 256 * 4); }  // Q8_K
  const int16_t *sum32() const { return sum16() + n / 16; }                                          // Q8_K
};

// Values a row must be a multiple of; 0 for an unknown kind.
int64_t act_block(int kind);

}  // namespace golem
