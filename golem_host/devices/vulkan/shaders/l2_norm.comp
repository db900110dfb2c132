// x / sqrt(sum(x^2) + eps) over each of the first `groups` of n values of a row of x [rows, width]; a workgroup past them
// copies the rest.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0) in;
#include "math.glsl"
#include "pair_sum.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint groups, n, width;
  float eps;
};

void main() {
  const uint row = gl_WorkGroupID.y, group = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
  if (int(row) >= live[axis]) return;
  if (group == groups) {
    for (uint i = groups * n + t; i < width; i += gl_WorkGroupSize.x) result[row * width + i] = x[row * width + i];
    return;
  }
  const uint at = row * width + group * n;
  vec2 squares = vec2(0.0);
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) {
    precise float square = x[at + i] * x[at + i];
    squares = sum_of_pairs(squares, vec2(square, 0.0));
  }
  precise float total = workgroup_sum_of_pairs(squares).x + eps;
  const float scale = quotient(1.0, sqrt_of(total));
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) result[at + i] = x[at + i] * scale;
}
