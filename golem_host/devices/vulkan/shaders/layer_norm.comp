// (x - mean) / sqrt(variance + eps) * weight + bias, if any: a workgroup for each row of x [rows, n].
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool HAS_BIAS = true;
#include "sum.glsl"

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
  precise float sum = 0.0, squares = 0.0;
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) sum = sum + x[at + i];
  precise float mean = workgroup_sum(sum) / float(n);
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) {
    precise float centred = x[at + i] - mean;
    squares = fma(centred, centred, squares);
  }
  precise float scale = 1.0 / sqrt(workgroup_sum(squares) / float(n) + eps);
  for (uint i = t; i < n; i += gl_WorkGroupSize.x) {
    precise float y = (x[at + i] - mean) * scale;
    y = y * weight[i];
    if (HAS_BIAS) y = y + bias[i];
    result[at + i] = y;
  }
}
