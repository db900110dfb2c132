// Means of rows first .. first + count of x [source rows, width], summed in their order: out [rows, width].
#version 450
#extension GL_GOOGLE_include_directive : require
#include "math.glsl"

layout(local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 2) readonly buffer First { int first[]; };
layout(std430, set = 0, binding = 3) readonly buffer Count { int count[]; };
layout(std430, set = 0, binding = 4) readonly buffer Live { int live[]; };
layout(push_constant) uniform Numbers {
  int axis;
  uint width;
  int source;  // the axis of x
};

void main() {
  const uint row = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (int(row) >= live[axis] || i >= width) return;
  const int begin = clamp(first[row], 0, live[source]), end = clamp(begin + count[row], begin, live[source]);
  precise float sum = begin < end ? x[uint(begin) * width + i] : 0.0;
  for (int at = begin + 1; at < end; at++) sum = sum + x[uint(at) * width + i];
  result[row * width + i] = sum * quotient(1.0, float(count[row]));
}
