// (x - mean) / sqrt(variance + eps) * weight + bias, if any: a workgroup for each row of x [rows, n].
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HAS_BIAS = true;
#include "math.glsl"
#include "pair_sum.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, set = 0, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 4) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint n;
  float eps;
};

void main() {
  const uint row = gl_WorkGroupID.x, at = row * n, t = gl_LocalInvocationID.x;
  if (int(row) >= live[axis]) return;
  vec2 sum = vec2(0.0), squares = vec2(0.0);
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) sum = sum_of_pairs(sum, vec2(x[at + i], 0.0));
  const float mean = quotient_of_pairs(workgroup_sum_of_pairs(sum), vec2(float(n), 0.0));
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) {
    precise float square = (x[at + i] - mean) * (x[at + i] - mean);
    squares = sum_of_pairs(squares, vec2(square, 0.0));
  }
  precise float variance = quotient_of_pairs(workgroup_sum_of_pairs(squares), vec2(float(n), 0.0));
  variance = variance + eps;
  const float scale = quotient(1.0, sqrt_of(variance));
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) {
    precise float y = (x[at + i] - mean) * scale;
    y = y * weight[i];
    if (HAS_BIAS) y = y + bias[i];
    result[at + i] = y;
  }
}
