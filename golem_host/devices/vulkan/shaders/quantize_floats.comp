// Rows rounded to half or bfloat16 (nearest, ties to even), two values a word, or copied; filled up with zeros to whole
// pieces of eight words.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "half.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BITS = 16u;  // of a value
layout(constant_id = 2) const bool BFLOAT = false;

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Live { int live[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Out { uint result[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  uint pieces;
  uint inner;
};

void main() {
  const uint row = gl_WorkGroupID.y, word = gl_GlobalInvocationID.x;
  if (int(row / inner) >= live[axis] || word >= pieces * 8u) return;
  const uint at = BITS == 16u ? 2u * word : word, from = row * width;
  const float first = at < width ? x[from + at] : 0.0;
  uint bits = floatBitsToUint(first);
  if (BITS == 16u) {
    const float second = at + 1u < width ? x[from + at + 1u] : 0.0;
    bits = BFLOAT ? bfloat_bits(first) | bfloat_bits(second) << 16 : half_pair(first, second);
  }
  result[row * pieces * 8u + word] = bits;
}
