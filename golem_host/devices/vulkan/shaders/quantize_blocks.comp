// Rows quantized to int8 as ggml does on x86 (quantize_row_q8_0, q8_1, q8_K: round half to even), in blocks of BLOCK
// values: 32 with a scale rounded to half, 256 with a scale as it is. A block with a value that is not finite gets the
// scale NaN, so that it shows in the result. A lane has four values; a row is laid out in product.glsl.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "half.glsl"
#include "quantize.glsl"

layout(local_size_x_id = 0) in;  // 128
layout(constant_id = 1) const bool ROUNDED_SUMS = false;  // for Q4_1 and Q5_1: scale * sum of the codes, rounded to half

layout(std430, set = 0, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Live { int live[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Out { uint result[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;   // of a row, a multiple of BLOCK
  uint pieces;  // of 32 in a row of the result
  uint inner;   // rows for each row of the axis
};

const uint kLanes = 128u, kOfBlock = BLOCK / 4u;

shared uint largest[kLanes];
shared int sums[kLanes];

uint magnitude(uint bits) { return bits & 0x7fffffffu; }

// The one of larger magnitude, the first where they tie. What is not finite is larger than what is.
uint larger(uint first, uint second) { return magnitude(second) > magnitude(first) ? second : first; }

void main() {
  const uint row = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x, of_block = lane % kOfBlock;
  if (int(row / inner) >= live[axis]) return;
  const uint four = gl_WorkGroupID.x * kLanes + lane;
  const vec4 v = four * 4u < width ? x[row * (width / 4u) + four] : vec4(0.0);
  const uvec4 bits = floatBitsToUint(v);
  largest[lane] = larger(larger(bits.x, bits.y), larger(bits.z, bits.w));
  for (uint apart = 1u; apart < kOfBlock; apart *= 2u) {
    barrier();
    if (of_block % (2u * apart) == 0u) largest[lane] = larger(largest[lane], largest[lane + apart]);
  }
  barrier();
  const uint extreme = largest[lane - of_block], amax = magnitude(extreme);
  const bool finite = amax < 0x7f800000u;
  float d = finite ? 0.0 : uintBitsToFloat(0x7fc00000u), exact = d;
  uint codes = 0u;
  if (finite && amax > 0u) {
    const float inverse = quotient_of(127.0, uintBitsToFloat(amax));
    if (is_finite(inverse)) {
#if BLOCK == 32
      codes = codes_of(v, inverse);
      exact = quotient_of(uintBitsToFloat(amax), 127.0);
      d = rounded_to_half(exact);
#else
      const bool positive = extreme == amax;  // the extreme becomes -127
      codes = codes_of(v, positive ? -inverse : inverse);
      d = quotient_of(1.0, inverse);
      d = positive ? -d : d;
#endif
    }
  }
  sums[lane] = sum_of(codes);
  barrier();
  if (four >= pieces * 8u) return;
  const uint at = row * pieces * 10u;
  result[at + four] = codes;
  if (four % 8u != 0u) return;
  const int first = sums[lane] + sums[lane + 1u] + sums[lane + 2u] + sums[lane + 3u];
  const int second = sums[lane + 4u] + sums[lane + 5u] + sums[lane + 6u] + sums[lane + 7u];
  uint factor = uint(first & 0xffff) | uint(second) << 16;
  if (ROUNDED_SUMS) {
    precise float product = exact * float(first + second);
    factor = floatBitsToUint(rounded_to_half(product));
  }
  const uint scale_at = at + pieces * 8u + four / 4u;
  result[scale_at] = floatBitsToUint(d);
  result[scale_at + 1u] = factor;
}
