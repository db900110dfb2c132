// Layout of one quantized activation row. ggml's values, in arrays of their own instead of ggml's blocks:
//   Q8_0  int8 q[n], float d[n/32] (rounded to half), int32 sum[n/32] (of q)
//   Q8_1  int8 q[n], float d[n/32] (rounded to half), float s[n/32] (d * sum of q, rounded to half)
//   Q8_K  int8 q[n], float d[n/256], int16 sum16[n/16], int16 sum32[n/32] (of q)
//   F16, BF16  float[n], each rounded to that type; for BF16 uint16[n] where n is even and the instruction set has pack_pairs
#pragma once
#include <cstdint>

namespace golem {

// Byte offsets of what belongs to block b in a row of n values.
static inline int64_t act32_d_at(int64_t n, int64_t b) { return n + 4 * b; }
static inline int64_t act32_s_at(int64_t n, int64_t b) { return n + n / 8 + 4 * b; }  // s of Q8_1, sum of Q8_0
static inline int64_t act256_d_at(int64_t n, int64_t b) { return n + 4 * b; }
static inline int64_t act256_sum16_at(int64_t n, int64_t b) { return n + n / 64 + 32 * b; }
static inline int64_t act256_sum32_at(int64_t n, int64_t b) { return n + n / 64 + n / 8 + 16 * b; }

static inline const int8_t *codes_at(const uint8_t *row, int64_t at) { return reinterpret_cast<const int8_t *>(row + at); }
static inline float float_at(const uint8_t *row, int64_t at) { return *reinterpret_cast<const float *>(row + at); }
static inline int32_t int_at(const uint8_t *row, int64_t at) { return *reinterpret_cast<const int32_t *>(row + at); }
static inline const int16_t *shorts_at(const uint8_t *row, int64_t at) { return reinterpret_cast<const int16_t *>(row + at); }

// Values a row must be a multiple of; 0 for an unknown kind.
int64_t act_block(int kind);

}  // namespace golem
