// The partial results of attention.comp, [rows, heads, ranges, 2 + value dim], added in the order of their ranges.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint VALUE_DIM = 64;

#include "merge.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 2) readonly buffer Positions { int positions[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint heads, ranges;
  int window;
};

const uint DIMS = (VALUE_DIM + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // of a thread

shared float range_largest[gl_WorkGroupSize.x], range_total[gl_WorkGroupSize.x];
shared vec2 factors[gl_WorkGroupSize.x];

void main() {
  const uint row = gl_WorkGroupID.y, head = row * heads + gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
  if (int(row) >= live[axis]) return;
  const int position = max(positions[row], 0), first = window > 0 && position >= window ? position - window + 1 : 0;
  const uint count = min(uint(position / int(RANGE) - first / int(RANGE) + 1), ranges), stride = 2 + VALUE_DIM;
  float largest = NOTHING, total = 0.0, s[DIMS];
  [[unroll]] for (uint j = 0; j < DIMS; j++) s[j] = 0.0;
  for (uint begin = 0; begin < count; begin += gl_WorkGroupSize.x) {
    const uint here = min(count - begin, gl_WorkGroupSize.x), at = (head * ranges + begin) * stride;
    barrier();
    if (t < here) {
      range_largest[t] = partial[at + t * stride];
      range_total[t] = partial[at + t * stride + 1];
    }
    barrier();
    // each thread finds the largest before its own range
    float before = largest;
    for (uint i = 0; i < t && i < here; i++) before = range_largest[i] > before ? range_largest[i] : before;
    if (t < here) factors[t] = merge_factors(before, range_largest[t]);
    barrier();
    for (uint i = 0; i < here; i++) {
      largest = range_largest[i] > largest ? range_largest[i] : largest;
      total = merged(total, range_total[i], factors[i]);
      [[unroll]] for (uint j = 0; j < DIMS; j++) {
        const uint d = t + j * gl_WorkGroupSize.x;
        if (d < VALUE_DIM) s[j] = merged(s[j], partial[at + i * stride + 2 + d], factors[i]);
      }
    }
  }
  [[unroll]] for (uint j = 0; j < DIMS; j++) {
    const uint d = t + j * gl_WorkGroupSize.x;
    if (d < VALUE_DIM) result[head * VALUE_DIM + d] = s[j] / total;
  }
}
