// Portable decoding of quantized blocks into integers and scales: exact, one block at a time.
#pragma once
#include <cstdint>

#include "blocks.h"

namespace golem {

// value[e] = (d * scale[e / sub]) * q[e] - dmin * min[e / sub]
struct Decoded {
  int sub;  // values that share a scale
  float d, dmin;
  int32_t scale[16], min[16];
  int8_t q[256];
};

using DecodeFn = void (*)(const uint8_t *block, Decoded &out);

// The decoder of a quantized type; nullptr for F32, F16, BF16 and unsupported types.
DecodeFn block_decoder(int64_t type);

// Writes the n values of one row of any supported type as float32; n fits the type's blocks.
void dequantize_row(int64_t type, const uint8_t *row, int64_t n, float *out);

}  // namespace golem
