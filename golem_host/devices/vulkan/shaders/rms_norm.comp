// x / sqrt(mean(x^2) + eps) * weight: a workgroup for each last axis of x [rows, groups, n]. The squares are float32, their
// sum is a pair, where the processor takes it in double.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0) in;
#include "math.glsl"
#include "pair_sum.glsl"

layout(constant_id = 1) const bool HAS_WEIGHT = true;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, set = 0, binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint groups, n;
  float eps;
};

void main() {
  const uint row = gl_WorkGroupID.y;
  if (int(row) >= live[axis]) return;
  const uint at = (row * groups + gl_WorkGroupID.x) * n;
  vec2 squares = vec2(0.0);
  for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
    precise float square = x[at + i] * x[at + i];
    squares = sum_of_pairs(squares, vec2(square, 0.0));
  }
  precise float mean = quotient_of_pairs(workgroup_sum_of_pairs(squares), vec2(float(n), 0.0));
  mean = mean + eps;
  const float scale = quotient(1.0, sqrt_of(mean));
  for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
    precise float y = x[at + i] * scale;
    if (HAS_WEIGHT) y = y * weight[i];
    result[at + i] = y;
  }
}
